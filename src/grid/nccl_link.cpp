#include "grid/nccl_link.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

// What is used of NCCL's C interface, as its user guide describes it (NVIDIA Collective Communication Library
// documentation, "NCCL API"): opaque communicators, a 128-byte id, result codes with 0 for success.
using Comm = void*;
struct UniqueId {
  char internal[128];
};
constexpr int nccl_success = 0, nccl_bytes = 0;  // ncclInt8

struct Library {
  std::string obstacle;
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*comm_init_rank)(Comm*, int, UniqueId, int) = nullptr;
  int (*comm_destroy)(Comm) = nullptr;
  int (*comm_abort)(Comm) = nullptr;
  int (*send)(const void*, std::size_t, int, int, Comm, void*) = nullptr;
  int (*receive)(void*, std::size_t, int, int, Comm, void*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*error_text)(int) = nullptr;

  void check(int code, const char* call) const {
    if (code == nccl_success) return;
    throw Error(ErrorClass::device, fmt::format("NCCL: {} failed: {} (code {}); NCCL_DEBUG=INFO says more, "
                                                "--route staged goes without it",
                                                call, error_text(code), code));
  }
};

const Library& library() {
  static const Library found = [] {
    Library result;
    const char* const wanted = std::getenv("SHARDWISE_NCCL_LIBRARY");
    const std::string name = wanted && *wanted ? wanted : "libnccl.so.2";
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char* const why = dlerror();
      result.obstacle = fmt::format("NCCL was not found ({})", why ? why : name);
      return result;
    }
    const auto get = [&](auto& function, const char* symbol) {
      void* const address = dlsym(handle, symbol);
      if (!address && result.obstacle.empty())
        result.obstacle = fmt::format("{} has no {}: it is too old, or no NCCL", name, symbol);
      std::memcpy(&function, &address, sizeof(address));
    };
    get(result.get_version, "ncclGetVersion");
    get(result.get_unique_id, "ncclGetUniqueId");
    get(result.comm_init_rank, "ncclCommInitRank");
    get(result.comm_destroy, "ncclCommDestroy");
    get(result.comm_abort, "ncclCommAbort");
    get(result.send, "ncclSend");
    get(result.receive, "ncclRecv");
    get(result.group_start, "ncclGroupStart");
    get(result.group_end, "ncclGroupEnd");
    get(result.error_text, "ncclGetErrorString");
    return result;
  }();
  return found;
}

class RealLink final : public NcclLink {
 public:
  RealLink(Communicator& ranks, Stream& stream) {
    UniqueId id{};
    std::string problem;
    if (ranks.rank() == 0) {
      const int code = library().get_unique_id(&id);
      if (code != nccl_success) problem = library().error_text(code);
    }
    ranks.broadcast(problem, 0, "NCCL id");
    if (!problem.empty()) throw Error(ErrorClass::device, "NCCL: ncclGetUniqueId failed: " + problem);
    ranks.broadcast_value(id, 0, "NCCL id");
    // In a body, so that the stream's GPU is the current one.
    Operation operation;
    operation.name = "connect NCCL";
    operation.body = [this, id, size = ranks.size(), rank = ranks.rank()](LaunchContext&) {
      library().check(library().comm_init_rank(&comm_, size, id, rank), "ncclCommInitRank");
    };
    stream.enqueue(std::move(operation));
    stream.synchronize();
  }
  ~RealLink() override {
    // Destroy is collective; after a failure the other ranks may never come to it.
    if (comm_) (broken_ ? library().comm_abort : library().comm_destroy)(comm_);
  }
  void enqueue(void* native_stream, std::span<const Part> parts) override {
    broken_ = true;
    library().check(library().group_start(), "ncclGroupStart");
    for (const Part& part : parts) {
      const int code =
          part.send ? library().send(part.memory, part.bytes, nccl_bytes, part.peer, comm_, native_stream)
                    : library().receive(part.memory, part.bytes, nccl_bytes, part.peer, comm_, native_stream);
      library().check(code, part.send ? "ncclSend" : "ncclRecv");
    }
    library().check(library().group_end(), "ncclGroupEnd");
    broken_ = false;
  }
  std::string version() const override {
    int version = 0;
    library().get_version(&version);
    return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

 private:
  Comm comm_ = nullptr;
  bool broken_ = false;
};

}  // namespace

std::string NcclLink::obstacle() {
  return library().obstacle;
}

std::shared_ptr<NcclLink> NcclLink::connect(Communicator& ranks, Stream& stream) {
  return std::make_shared<RealLink>(ranks, stream);
}

}  // namespace shardwise
