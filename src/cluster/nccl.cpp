// NCCL by its C interface, found with dlopen. The declarations here are those of NCCL 2.7 and later (nccl.h),
// as far as they are used.

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "shardwise/cluster/device_collectives.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {
namespace {

struct UniqueId {
  char internal[128];
};
using NcclComm = void*;
constexpr int nccl_success = 0, nccl_bytes = 0 /* ncclInt8 */, nccl_uint64 = 5, nccl_sum = 0;

struct Nccl {
  int (*version)(int*) = nullptr;
  int (*unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(NcclComm*, int, UniqueId, int) = nullptr;
  int (*reduce)(const void*, void*, std::size_t, int, int, int, NcclComm, void*) = nullptr;
  int (*send)(const void*, std::size_t, int, int, NcclComm, void*) = nullptr;
  int (*receive)(void*, std::size_t, int, int, NcclComm, void*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*destroy)(NcclComm) = nullptr;
  const char* (*error_string)(int) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// The library, opened once a process; null and why.
const Nccl* load(std::string* why) {
  static std::string reason;
  static const Nccl* const found = []() -> const Nccl* {
    const char* chosen = std::getenv("SHARDWISE_NCCL");
    const std::string name = chosen != nullptr && *chosen != '\0' ? chosen : "libnccl.so.2";
    if (name == "off") {
      reason = "SHARDWISE_NCCL is off";
      return nullptr;
    }
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      reason = fmt::format("NCCL was not found ({})", error != nullptr ? error : name);
      return nullptr;
    }
    static Nccl api;
    if (find(library, "ncclGetVersion", api.version) && find(library, "ncclGetUniqueId", api.unique_id) &&
        find(library, "ncclCommInitRank", api.init_rank) && find(library, "ncclReduce", api.reduce) &&
        find(library, "ncclSend", api.send) && find(library, "ncclRecv", api.receive) &&
        find(library, "ncclGroupStart", api.group_start) && find(library, "ncclGroupEnd", api.group_end) &&
        find(library, "ncclCommDestroy", api.destroy) &&
        find(library, "ncclGetErrorString", api.error_string))
      return &api;
    reason = fmt::format("'{}' is no NCCL", name);
    return nullptr;
  }();
  if (found == nullptr) *why = reason;
  return found;
}

void check(const Nccl& nccl, int code, const char* what) {
  if (code != nccl_success)
    throw Error(ErrorClass::device,
                fmt::format("NCCL: {} failed ({}); SHARDWISE_NCCL=off goes through the host", what,
                            nccl.error_string(code)));
}

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(const Nccl& nccl, NcclComm comm) : nccl_(nccl), comm_(comm) {}
  ~NcclCollectives() override { nccl_.destroy(comm_); }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;
  std::string name() const override {
    int version = 0;
    nccl_.version(&version);
    return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
  void sum_to_rank_0(LaunchContext& context, std::uint64_t* words, std::uint64_t count) override {
    check(nccl_, nccl_.reduce(words, words, count, nccl_uint64, nccl_sum, 0, comm_, context.native_stream()),
          "ncclReduce");
  }
  void exchange(LaunchContext& context, std::span<const Message> messages) override {
    void* const stream = context.native_stream();
    check(nccl_, nccl_.group_start(), "ncclGroupStart");
    int failed = nccl_success;
    for (const Message& m : messages) {
      const int code = m.sends ? nccl_.send(m.memory, m.bytes, nccl_bytes, m.peer, comm_, stream)
                               : nccl_.receive(m.memory, m.bytes, nccl_bytes, m.peer, comm_, stream);
      if (failed == nccl_success) failed = code;
    }
    const int end = nccl_.group_end();  // a group that was begun has to be ended
    check(nccl_, failed, "ncclSend or ncclRecv");
    check(nccl_, end, "ncclGroupEnd");
  }

 private:
  const Nccl& nccl_;
  NcclComm comm_;
};

}  // namespace

std::shared_ptr<DeviceCollectives> connect_devices(Communicator& ranks, Stream& stream, std::string* why) {
  const DeviceInfo& info = stream.device().info();
  std::string lacks;
  const Nccl* nccl = nullptr;
  if (ranks.size() == 1)
    lacks = "one rank runs";
  else if (info.kind != PlatformKind::cuda)
    lacks = fmt::format("{} is no GPU", info.name);
  else
    nccl = load(&lacks);
  const std::string mine = lacks.empty() ? "+" + info.uuid : "-" + lacks;
  std::vector<std::string> all;
  for (const std::vector<std::byte>& bytes :
       ranks.gather_all(std::as_bytes(std::span(mine)), "devices of the ranks"))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].front() == '-')
      *why = fmt::format("rank {}: {}", r, all[r].substr(1));
    else if (std::ranges::count(all, all[r]) > 1)
      *why = fmt::format("rank {} shares its GPU with another", r);
    else
      continue;
    return nullptr;
  }
  UniqueId id{};
  if (ranks.rank() == 0) check(*nccl, nccl->unique_id(&id), "ncclGetUniqueId");
  ranks.broadcast_value(id, 0, "NCCL's id");
  // The device is current in an operation's body.
  NcclComm comm = nullptr;
  int code = nccl_success;
  Operation connect;
  connect.name = "connect GPUs";
  connect.body = [&](LaunchContext&) { code = nccl->init_rank(&comm, ranks.size(), id, ranks.rank()); };
  stream.enqueue(std::move(connect));
  stream.synchronize();
  check(*nccl, code, "ncclCommInitRank");
  auto collectives = std::make_shared<NcclCollectives>(*nccl, comm);
  // The first sum makes the connections; it shall not be the first that somebody waits for.
  Memory words(stream, std::uint64_t{4} << 20, "first sum");
  stream.enqueue(
      zero_operation("clear words", words.data(), words.bytes(), {words.access(AccessMode::write)}));
  Operation sum;
  sum.name = "first sum";
  sum.accesses = {words.access(AccessMode::write)};
  sum.body = [&](LaunchContext& context) {
    collectives->sum_to_rank_0(context, static_cast<std::uint64_t*>(words.data()), words.bytes() / 8);
  };
  stream.enqueue(std::move(sum));
  stream.synchronize();
  return collectives;
}

}  // namespace shardwise
