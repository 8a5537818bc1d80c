#pragma once
// A group of processes that run the same program: who am I, who else is there, and what do we know together.
//
//   void run(Communicator& ranks) {
//     std::vector<std::int64_t> counts = count_mine(ranks.rank(), ranks.size());
//     ranks.sum(counts, "counts");            // the same on every rank, exact
//     if (ranks.rank() == 0) write(counts);
//   }
//   ...
//   try { run(ranks); } catch (const Error& error) { ranks.fail(error); }  // all throw alike
//
// The rules:
//  * Collectives (sum, broadcast, ...) are called by every rank, in the same order, by one thread of each.
//    `what` names the call in messages, in the dump and among the traffic. A collective begins with a header
//    that all ranks exchange, so a wrong order is an internal RankError on every rank which names both calls,
//    never a wrong result and never a hang.
//  * Agreement before throwing: a rank that fails calls fail(), which answers whatever collective the others
//    are in or come to next. Every rank then throws the same RankError. So a rank may simply throw between
//    collectives, as long as somebody on its way out calls fail(). The communicator remains usable
//    afterwards; a duplicate that a rank was waiting in is not: further calls of it throw a state error.
//  * Deadlines: ranks hear of each other all the time, also while they compute. A rank that was not heard of
//    for `deadline_s` is lost, as is one that stays in another call for longer than `busy_deadline_s` while
//    others wait for it, where that is set: who waits for what is written to standard error, `on_abort` is
//    called, and the run ends (exit code 1), on every rank that is left.
//  * Messages (send, receive) may be used by any thread. They are matched by (source, tag), in order.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shardwise/cluster/failure_signal.hpp"
#include "shardwise/cluster/rank_error.hpp"

namespace shardwise {

/// What a rank has sent and received in the collectives and messages of one name: bytes of the caller's data,
/// counted once at each end, whatever way they take (a rank that receives a broadcast of n bytes: n in; the
/// root: n out. A sum of n bytes: n out and n in).
struct RankTraffic {
  std::string what;
  std::int64_t calls = 0;
  std::uint64_t bytes_out = 0, bytes_in = 0;
  double waited_s = 0;  ///< in collectives, for others and for the data
};

/// A message under way. Waits when it is destroyed, as an std::async would: the memory belongs to it until
/// then. Where an exception destroys it, it waits no longer than it has to: one that is received is called
/// off.
class RankMessage {
 public:
  virtual ~RankMessage() = default;
  /// Whether it is done; never blocks.
  virtual bool test() = 0;
  /// Returns when it is done: the data is there, or may be changed again. Throws a DependencyError where
  /// another rank fails meanwhile (fail() knows it for a consequence), an internal Error where the sizes
  /// differ.
  virtual void wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// "single process", or the MPI library with its version.
  virtual std::string name() const = 0;
  /// This rank among those of its machine, and their number.
  virtual int local_rank() const { return 0; }
  virtual int local_size() const { return 1; }
  /// Whether messages may lie in GPU memory: the library says so, and was built for it.
  virtual bool takes_device_memory() const { return false; }
  /// The machine that a rank runs on.
  virtual std::string host(int rank) const = 0;

  // Collectives. All throw RankError; counts, roots and names are compared before any data moves.

  void barrier(std::string_view what);
  /// All ranks have the root's bytes afterwards; the sizes must be equal.
  void broadcast(std::span<std::byte> bytes, int root, std::string_view what);
  /// The same, and the others' vectors take the root's size.
  void broadcast(std::vector<std::byte>& bytes, int root, std::string_view what);
  void broadcast(std::string& text, int root, std::string_view what);
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void broadcast_value(T& value, int root, std::string_view what) {
    broadcast(std::as_writable_bytes(std::span(&value, 1)), root, what);
  }

  /// Element by element over the ranks, on every rank. Integers exactly (modulo 2^64).
  void sum(std::span<std::int64_t> values, std::string_view what);
  void min(std::span<std::int64_t> values, std::string_view what);
  void max(std::span<std::int64_t> values, std::string_view what);
  /// ((v_0 + v_1) + v_2) + ... in rank order: the same bits every time, on every rank. For few values: every
  /// rank receives those of all.
  void sum(std::span<double> values, std::string_view what);
  void min(std::span<double> values, std::string_view what);
  void max(std::span<double> values, std::string_view what);
  /// The integer sum on `root` alone; the others' values are left as they were.
  void sum_to(int root, std::span<std::int64_t> values, std::string_view what);

  /// result[r] is what rank r gave, of any size: on the root (elsewhere: empty), or on every rank.
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes, int root,
                                             std::string_view what);
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> bytes, std::string_view what);
  std::vector<std::string> gather_text(const std::string& text, int root, std::string_view what);
  /// Gives outgoing[r] to rank r; result[r] is what rank r gave to this one. outgoing has size() elements.
  std::vector<std::vector<std::byte>> exchange(const std::vector<std::vector<std::byte>>& outgoing,
                                               std::string_view what);

  /// Whether all ranks say yes.
  bool agree(bool yes, std::string_view what);
  /// Answers the collective that the other ranks are in or come to next with this error: all throw a
  /// RankError with its class and text, to which "rank R: " is added unless all ranks failed with the same
  /// text. A RankError was agreed already, and is thrown again as it is. `exit_code`: -1 for that of the
  /// class.
  [[noreturn]] void fail(const Error& error, int exit_code = -1);

  // Messages. `tag`: 0 to 32,767. The memory stays as it is until the message is done.

  virtual std::unique_ptr<RankMessage> send(std::span<const std::byte> bytes, int target, int tag,
                                            std::string_view what) = 0;
  /// The sender's size must be the same.
  virtual std::unique_ptr<RankMessage> receive(std::span<std::byte> bytes, int source, int tag,
                                               std::string_view what) = 0;

  /// The same ranks with messages and collectives of their own, for one part of a program: collective. It
  /// must be destroyed before this one, on all ranks in the same order. fail() is heard in all of them; one
  /// that was in a call of its own then is of no use any more.
  virtual std::shared_ptr<Communicator> duplicate(std::string_view what) = 0;

  /// Traffic of this rank by name, in the order of first use; of a duplicate it is its own.
  std::vector<RankTraffic> traffic() const;
  /// What the dump says while this rank is in no collective: "computing", until told otherwise.
  virtual void set_step(std::string_view step) = 0;
  /// What this rank hears of the others' failures, for waits elsewhere; null where there is nobody else.
  virtual std::shared_ptr<const FailureSignal> failure_signal() const { return nullptr; }
  /// Ends the run on all ranks at once, with this text on standard error.
  [[noreturn]] virtual void abort(const std::string& text, int exit_code) = 0;

 protected:
  /// What a collective is, as ranks compare it.
  enum class Call : std::int32_t {
    barrier,
    broadcast,
    reduce,
    gather,
    gather_all,
    exchange,
    agree,
    duplicate,
  };
  enum class Fold : std::int32_t { none, sum, min, max };
  enum class Words : std::int32_t { none, integers, reals };
  static constexpr std::size_t inline_bytes = 64;
  /// What ranks exchange at the beginning of a collective; small data travels in it.
  struct Header {
    std::int64_t sequence = 0;
    Call call = Call::barrier;
    Fold fold = Fold::none;
    Words words = Words::none;
    std::int32_t root = -1;
    std::uint64_t bytes = 0;
    std::int32_t failed = 0;  ///< 1: this rank is in fail(), 2: because another is; `bytes`: of its text
    std::int32_t error_class = 0;
    std::int32_t exit_code = 0;
    std::int32_t broken = 0;  ///< 1: this rank gave up a collective, and can do no more of them
    std::uint64_t text_hash = 0;
    char what[40] = {};
    std::byte data[inline_bytes] = {};
  };
  static_assert(std::is_trivially_copyable_v<Header>);

  Communicator(int rank, int size) : rank_(rank), size_(size) {}

  // What an implementation does. Every rank calls them alike; each returns or ends the run within the
  // deadline. Where a rank has no memory for what comes, none of them moves anything: it throws, and the
  // others throw a DependencyError.
  virtual std::vector<Header> exchange_headers(const Header& mine) = 0;
  virtual void move_broadcast(std::span<std::byte> bytes, int root) = 0;
  /// The text of a failure: as move_broadcast(), where others may have given up what they were moving.
  virtual void move_failure(std::span<std::byte> bytes, int root) = 0;
  /// root -1: on every rank.
  virtual void move_reduce(std::span<std::int64_t> values, Fold fold, int root) = 0;
  /// sizes[r]: bytes of rank r. root -1: on every rank.
  virtual std::vector<std::vector<std::byte>> move_gather(std::span<const std::byte> bytes,
                                                          const std::vector<std::uint64_t>& sizes,
                                                          int root) = 0;
  virtual std::vector<std::vector<std::byte>> move_exchange(
      const std::vector<std::vector<std::byte>>& outgoing) = 0;
  /// Tells the ranks that wait elsewhere (in messages, in duplicates) that this one is in fail().
  virtual void announce_failure() {}
  /// All ranks know of it now.
  virtual void failure_was_agreed() {}
  /// The communicator that fail() answers on: the one that all others are duplicates of.
  virtual Communicator& root_communicator() { return *this; }
  virtual void entered(std::string_view what) = 0;
  virtual void left() = 0;

  /// Exchanges headers and throws the RankError that follows from them.
  std::vector<Header> enter(Header mine, std::string_view what);
  void count(std::string_view what, std::uint64_t bytes_out, std::uint64_t bytes_in, double waited_s,
             std::int64_t calls = 1);
  /// For implementations: this rank joins a failure that was announced while it was in no collective of the
  /// root communicator. Throws the RankError.
  [[noreturn]] void join_failure();

 private:
  class Timing;
  void fold_doubles(std::span<double> values, Fold fold, std::string_view what);
  void fold_integers(std::span<std::int64_t> values, Fold fold, int root, std::string_view what);
  [[noreturn]] void throw_failure(const std::vector<Header>& headers, const std::string& own_text);
  void check_order(const std::vector<Header>& headers) const;
  void check_root(int root, std::string_view what) const;

  int rank_, size_;
  std::int64_t sequence_ = 0;
  mutable std::mutex traffic_mutex_;
  std::vector<RankTraffic> traffic_;
};

/// One process by itself: collectives return at once, messages go to itself.
std::shared_ptr<Communicator> single_process();

}  // namespace shardwise
