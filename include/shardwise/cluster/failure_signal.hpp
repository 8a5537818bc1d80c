#pragma once
// What a rank has heard of failures elsewhere, for waits that are none of the communicator's own (for a GPU
// that waits for another rank's, say): they ask from time to time and give up, as the communicator's waits
// do.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shardwise {

/// Written by one communicator and its duplicates, read by any thread. Outlives them.
class FailureSignal {
 public:
  /// The rank that announced a failure `seconds` ago or more which the ranks have not agreed on yet; -1:
  /// none.
  int failing_rank(double seconds) const noexcept {
    const int rank = rank_.load();
    if (rank < 0) return -1;
    const Clock::duration ago = Clock::now().time_since_epoch() - Clock::duration(heard_.load());
    return std::chrono::duration<double>(ago).count() > seconds ? rank : -1;
  }
  /// How many failures the ranks have agreed on so far.
  std::int64_t agreed() const noexcept { return agreed_.load(); }
  /// The communicator is gone: nothing is heard any more.
  bool is_over() const noexcept { return over_.load(); }

  // For communicators.
  void announce(int rank) noexcept {
    heard_.store(Clock::now().time_since_epoch().count());
    rank_.store(rank);
  }
  void agree() noexcept {
    ++agreed_;
    rank_.store(-1);
  }
  void end() noexcept { over_.store(true); }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<int> rank_{-1};
  std::atomic<Clock::rep> heard_{0};
  std::atomic<std::int64_t> agreed_{0};
  std::atomic<bool> over_{false};
};

}  // namespace shardwise
