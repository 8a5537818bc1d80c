// A library with NCCL's names whose collectives end when the test says so: what waits for NCCL is tested
// without a GPU. What a GPU would do, fake_gpu_wait() does on the thread of a host stream.

#include "fake_nccl.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>

namespace {

std::mutex mutex;
std::condition_variable changed;
int mode = works;
int async_error = 0;
bool under_way = false, aborted = false;
int aborts = 0, destroys = 0;

struct Comm {
  int ranks, rank;
};

bool wait_for_end(std::unique_lock<std::mutex>& lock) {
  return changed.wait_for(lock, std::chrono::seconds(40), [] { return !under_way || aborted; });
}

}  // namespace

extern "C" {

struct FakeId {
  char internal[128];
};

int ncclGetVersion(int* version) {
  *version = 29901;
  return 0;
}
int ncclGetUniqueId(FakeId* id) {
  std::memset(id->internal, 7, sizeof id->internal);
  return 0;
}
int ncclCommInitRank(void** comm, int ranks, FakeId id, int rank) {
  std::unique_lock lock(mutex);
  if (mode == init_never_returns) {
    under_way = true;
    wait_for_end(lock);
  }
  if (mode == init_fails || id.internal[100] != 7) return 2;
  aborted = under_way = false;
  aborts = destroys = async_error = 0;
  *comm = new Comm{ranks, rank};
  return 0;
}
int ncclReduce(const void*, void*, std::size_t, int, int, int, void*, void*) {
  std::unique_lock lock(mutex);
  if (mode == call_fails) return 1;
  if (mode == works) return 0;
  under_way = true;
  if (mode == never_ends) return 0;
  wait_for_end(lock);
  return aborted ? 3 : 0;
}
int ncclSend(const void*, std::size_t, int, int, void*, void*) {
  return 0;
}
int ncclRecv(void*, std::size_t, int, int, void*, void*) {
  return 0;
}
int ncclGroupStart() {
  return 0;
}
int ncclGroupEnd() {
  return ncclReduce(nullptr, nullptr, 0, 0, 0, 0, nullptr, nullptr);
}
int ncclCommDestroy(void* comm) {
  const std::lock_guard lock(mutex);
  ++destroys;
  delete static_cast<Comm*>(comm);
  return 0;
}
int ncclCommAbort(void* comm) {
  {
    const std::lock_guard lock(mutex);
    ++aborts;
    aborted = true;
    delete static_cast<Comm*>(comm);
  }
  changed.notify_all();
  return 0;
}
int ncclCommGetAsyncError(void* comm, int* error) {
  const std::lock_guard lock(mutex);
  *error = static_cast<Comm*>(comm)->ranks > 0 ? async_error : 1;
  return 0;
}
const char* ncclGetErrorString(int code) {
  return code == 6 ? "remote process exited or there was a network error" : "some error";
}

void fake_set_mode(int new_mode) {
  {
    const std::lock_guard lock(mutex);
    mode = new_mode;
  }
}
void fake_end() {
  {
    const std::lock_guard lock(mutex);
    under_way = false;
  }
  changed.notify_all();
}
void fake_set_async_error(int error) {
  const std::lock_guard lock(mutex);
  async_error = error;
}
/// 1: what is under way has ended, or was aborted.
int fake_gpu_wait() {
  std::unique_lock lock(mutex);
  return wait_for_end(lock) ? 1 : 0;
}
int fake_aborts() {
  const std::lock_guard lock(mutex);
  return aborts;
}
int fake_destroys() {
  const std::lock_guard lock(mutex);
  return destroys;
}
}
