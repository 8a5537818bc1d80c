#pragma once
// Where the processor's time of a call on rows goes: what comes before the first launch is added to the
// call's time on every device, what comes behind the last one is not.

#include <chrono>
#include <utility>

namespace shardwise {

/// Seconds of the calling thread. Steps that a call does not have are 0.
struct CallStamps {
  double plan_s = 0;      ///< checks, costs, shards, chunks
  double allocate_s = 0;  ///< memory of the call
  double graph_s = 0;     ///< operations up to the launches, and what orders them
  double launch_s = 0;    ///< handing them to the streams
  double tail_s = 0;      ///< what stands behind the launches: counters, exits, memory given back
  double wait_s = 0;      ///< for the devices
  double finish_s = 0;    ///< figures and report
  double before_launch() const { return plan_s + allocate_s + graph_s + launch_s; }
};

/// Gives the seconds since it was asked last.
class LapClock {
 public:
  double lap() {
    const Clock::time_point now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace shardwise
