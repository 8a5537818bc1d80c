// Threads: calls of a link come from one thread. A second one, the guard, sees what the first cannot while it
// waits for a GPU that waits for another rank: that a rank announced a failure, or that the link has an
// error. It then aborts the link, which ends what the GPU is doing, and with it the wait. calls_ lies around
// every call of NCCL that takes the link; a call that does not return holds it, and is ended by an abort that
// does not wait for it.

#include "cluster/nccl.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {
namespace {

using namespace std::chrono_literals;

/// How long what was begun may still take once another rank has failed: all others may come to its end first.
constexpr double grace_s = 0.5;
/// The same of connecting, which NCCL does not let anybody call off.
constexpr double connect_grace_s = 5;
constexpr std::uint64_t first_sum_bytes = std::uint64_t{4} << 20;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::string failed_text(const Nccl& nccl, int code, const char* what) {
  return fmt::format("NCCL: {} failed ({}); SHARDWISE_NCCL=off goes through the host", what,
                     nccl.error_string(code));
}

class NcclCollectives final : public DeviceCollectives {
 public:
  NcclCollectives(const Nccl& nccl, NcclComm comm, std::shared_ptr<const FailureSignal> signal)
      : nccl_(nccl), comm_(comm), signal_(std::move(signal)), agreed_(signal_ ? signal_->agreed() : 0) {
    guard_ = std::thread([this] { guard(); });
  }
  ~NcclCollectives() override {
    {
      const std::lock_guard lock(guard_mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    guard_.join();
    if (given_up_.load()) return;
    // After a failure somewhere the others' ends may be gone, and a proper end would wait for them.
    const bool failed = signal_ && (signal_->agreed() != agreed_ || signal_->failing_rank(0) >= 0);
    failed ? nccl_.abort(comm_) : nccl_.destroy(comm_);
  }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  std::string name() const override {
    int version = 0;
    nccl_.version(&version);
    return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
  void sum_to_rank_0(LaunchContext& context, std::uint64_t* words, std::uint64_t count) override {
    call("ncclReduce", [&] {
      return nccl_.reduce(words, words, count, Nccl::uint64, Nccl::sum, 0, comm_, context.native_stream());
    });
  }
  void exchange(LaunchContext& context, std::span<const Message> messages) override {
    call("ncclSend or ncclRecv", [&] {
      void* const stream = context.native_stream();
      int failed = nccl_.group_start();
      if (failed != Nccl::success) return failed;
      for (const Message& m : messages) {
        const int code = m.sends ? nccl_.send(m.memory, m.bytes, Nccl::bytes, m.peer, comm_, stream)
                                 : nccl_.receive(m.memory, m.bytes, Nccl::bytes, m.peer, comm_, stream);
        if (failed == Nccl::success) failed = code;
      }
      const int end = nccl_.group_end();  // a group that was begun has to be ended
      return failed != Nccl::success ? failed : end;
    });
  }
  void check() override {
    if (!given_up_.load()) return;
    const std::lock_guard lock(reason_mutex_);
    if (reason_class_) throw Error(*reason_class_, reason_);
    throw DependencyError(reason_);
  }
  bool is_given_up() const override { return given_up_.load(); }

 private:
  template <class Call>
  void call(const char* what, Call&& nccl_call) {
    const std::lock_guard lock(calls_);
    check();
    const int code = nccl_call();
    if (code == Nccl::success) return;
    check();  // it was ended by an abort
    give_up(failed_text(nccl_, code, what), ErrorClass::device);
    check();
  }
  /// Without a class: a consequence of another rank's failure. Once; the streams end soon after.
  void give_up(std::string reason, std::optional<ErrorClass> reason_class) {
    {
      const std::lock_guard lock(reason_mutex_);
      if (given_up_.load()) return;
      reason_ = std::move(reason);
      reason_class_ = reason_class;
      given_up_.store(true);  // before what waits for the GPU goes on
    }
    nccl_.abort(comm_);
  }
  void guard() {
    std::unique_lock lock(guard_mutex_);
    while (!wake_.wait_for(lock, 20ms, [this] { return stop_; })) {
      if (given_up_.load() || (signal_ && signal_->is_over())) return;
      lock.unlock();
      look();
      lock.lock();
    }
  }
  void look() {
    std::unique_lock calls(calls_, std::try_to_lock);
    if (const int rank = signal_ ? signal_->failing_rank(grace_s) : -1; rank >= 0) {
      // A call that takes longer than this waits for a rank that does not come; the abort ends it.
      for (int again = 0; again < 100 && !calls.owns_lock(); ++again) {
        std::this_thread::sleep_for(5ms);
        (void)calls.try_lock();
      }
      // All may have agreed meanwhile.
      if (signal_->failing_rank(grace_s) >= 0)
        give_up(fmt::format("NCCL: given up, because rank {} failed meanwhile", rank), std::nullopt);
      return;
    }
    if (!calls.owns_lock()) return;
    int error = Nccl::success;
    if (nccl_.async_error(comm_, &error) == Nccl::success && error != Nccl::success &&
        error != Nccl::in_progress)
      give_up(failed_text(nccl_, error, "the link to another GPU"), ErrorClass::device);
  }

  const Nccl& nccl_;
  NcclComm comm_;
  std::shared_ptr<const FailureSignal> signal_;
  std::int64_t agreed_;  ///< failures before this link
  std::mutex calls_;
  std::mutex reason_mutex_;
  std::string reason_;
  std::optional<ErrorClass> reason_class_;
  std::atomic<bool> given_up_{false};
  std::mutex guard_mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread guard_;
};

/// For as long as it is there, this rank connects. A rank that failed meanwhile will not come, and NCCL waits
/// for it without an end: the run has to end then.
class ConnectGuard {
 public:
  explicit ConnectGuard(Communicator& ranks) : ranks_(ranks), signal_(ranks.failure_signal()) {
    if (signal_) thread_ = std::thread([this] { watch(); });
  }
  ~ConnectGuard() {
    {
      const std::lock_guard lock(mutex_);
      connected_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  ConnectGuard(const ConnectGuard&) = delete;
  ConnectGuard& operator=(const ConnectGuard&) = delete;

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, 100ms, [this] { return connected_; }))
      if (const int rank = signal_->failing_rank(connect_grace_s); rank >= 0)
        ranks_.abort(
            fmt::format("rank {} ({}): NCCL still connects to rank {} ({}), which failed {:g} s ago, "
                        "and cannot be called off; the run ends",
                        ranks_.rank(), ranks_.host(ranks_.rank()), rank, ranks_.host(rank), connect_grace_s),
            1);
  }

  Communicator& ranks_;
  std::shared_ptr<const FailureSignal> signal_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool connected_ = false;
  std::thread thread_;
};

}  // namespace

const Nccl* load_nccl(std::string* why) {
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
        find(library, "ncclCommDestroy", api.destroy) && find(library, "ncclCommAbort", api.abort) &&
        find(library, "ncclCommGetAsyncError", api.async_error) &&
        find(library, "ncclGetErrorString", api.error_string))
      return &api;
    reason = fmt::format("'{}' is no NCCL", name);
    return nullptr;
  }();
  if (found == nullptr) *why = reason;
  return found;
}

std::shared_ptr<DeviceCollectives> connect_nccl(const Nccl& nccl, Communicator& ranks, Stream& stream,
                                                Memory& words) {
  struct {
    NcclId id{};
    int code = Nccl::success;
  } first;
  if (ranks.rank() == 0) first.code = nccl.unique_id(&first.id);
  ranks.broadcast_value(first, 0, "NCCL's id");
  if (first.code != Nccl::success)
    throw Error(ErrorClass::device, failed_text(nccl, first.code, "ncclGetUniqueId"));
  // The device is current in an operation's body. All that a rank can fail at by itself is behind it.
  NcclComm comm = nullptr;
  int code = -1;
  Operation connect;
  connect.name = "connect GPUs";
  connect.body = [&](LaunchContext&) { code = nccl.init_rank(&comm, ranks.size(), first.id, ranks.rank()); };
  try {
    try {
      const ConnectGuard guard(ranks);
      stream.enqueue(std::move(connect));
      stream.synchronize();
      if (code != Nccl::success) throw Error(ErrorClass::device, failed_text(nccl, code, "ncclCommInitRank"));
    } catch (const Error& error) {
      ranks.fail(error);
    }
    ranks.barrier("NCCL's ranks");
  } catch (const RankError& error) {  // all ranks have it, and may go on without NCCL
    if (comm != nullptr) nccl.abort(comm);
    throw Error(error.error_class(), error.what());
  }
  auto collectives = std::make_shared<NcclCollectives>(nccl, comm, ranks.failure_signal());
  // The first sum makes the connections; it shall not be the first that somebody waits for. Where it fails on
  // one rank, the others' GPUs wait for it: they have to hear of it.
  try {
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
    collectives->check();
  } catch (const Error& error) {
    ranks.fail(error);
  }
  return collectives;
}

std::shared_ptr<DeviceCollectives> connect_devices(Communicator& ranks, Stream& stream, std::string* why) {
  const DeviceInfo& info = stream.device().info();
  std::string lacks;
  const Nccl* nccl = nullptr;
  Memory words;
  if (ranks.size() == 1) {
    lacks = "one rank runs";
  } else if (info.kind != PlatformKind::cuda) {
    lacks = fmt::format("{} is no GPU", info.name);
  } else if (nccl = load_nccl(&lacks); nccl != nullptr) {
    try {
      words = Memory(stream, first_sum_bytes, "first sum");
      stream.synchronize();
    } catch (const Error& error) {
      lacks = error.what();
    }
  }
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
  return connect_nccl(*nccl, ranks, stream, words);
}

}  // namespace shardwise
