#include "runtime/cuda/cuda_event.hpp"

#include <array>
#include <mutex>
#include <vector>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_device.hpp"

namespace shardwise {

namespace {

/// Events that nobody uses, with timing and without, by GPU. Never destroyed: events may outlive static
/// objects. Reuse is sound at any time: who waits for an event that is recorded anew waits for what it stood
/// for before.
struct EventPool {
  static constexpr std::size_t kept = 256;  ///< of each kind for each GPU
  std::mutex mutex;
  std::array<std::vector<cudaEvent_t>, 2 * max_cuda_devices> idle;

  static EventPool& instance() {
    static EventPool* pool = new EventPool;
    return *pool;
  }
  std::vector<cudaEvent_t>& of(int device, bool timed) {
    return idle[static_cast<std::size_t>(2 * device + (timed ? 1 : 0))];
  }
  cudaEvent_t take(int device, bool timed) {
    std::lock_guard lock(mutex);
    std::vector<cudaEvent_t>& events = of(device, timed);
    if (events.empty()) return nullptr;
    cudaEvent_t event = events.back();
    events.pop_back();
    return event;
  }
  /// Whether the pool took it.
  bool give(int device, bool timed, cudaEvent_t event) {
    std::lock_guard lock(mutex);
    std::vector<cudaEvent_t>& events = of(device, timed);
    if (events.size() >= kept) return false;
    events.push_back(event);
    return true;
  }
};

}  // namespace

CudaEvent::CudaEvent(int device, bool timed) : device_(device), timed_(timed) {
  event_ = EventPool::instance().take(device_, timed_);
  if (event_) return;
  CurrentCudaDevice current(device_);
  SW_CUDA(cudaEventCreateWithFlags(&event_, timed_ ? cudaEventDefault : cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() {
  if (!event_) return;
  if (EventPool::instance().give(device_, timed_, event_)) return;
  if (cudaEventDestroy(event_) != cudaSuccess) cudaGetLastError();  // of a lost device
}

void CudaEvent::record(cudaStream_t stream, bool behind_error) {
  const cudaError_t code = cudaEventRecord(event_, stream);
  state_ = code != cudaSuccess || behind_error ? State::failed : State::recorded;
  state_.notify_all();
  SW_CUDA(code);
}

void CudaEvent::wait_on_host() {
  wait_until_recorded();
  SW_CUDA(cudaEventSynchronize(event_));
}

bool CudaEvent::is_signalled() {
  if (!is_recorded()) return false;
  const cudaError_t code = cudaEventQuery(event_);
  if (code != cudaSuccess) cudaGetLastError();  // "not ready" counts as an error of this thread, too
  return code != cudaErrorNotReady;
}

bool CudaEvent::failed() {
  if (!is_recorded()) return false;
  const cudaError_t code = cudaEventQuery(event_);
  if (code != cudaSuccess) cudaGetLastError();
  return is_behind_error() || (code != cudaSuccess && code != cudaErrorNotReady);
}

double CudaEvent::seconds_since(EventState& earlier) {
  CurrentCudaDevice current(device_);
  float milliseconds = 0;
  SW_CUDA(cudaEventElapsedTime(&milliseconds, dynamic_cast<CudaEvent&>(earlier).event_, event_));
  return milliseconds * 1e-3;
}

}  // namespace shardwise
