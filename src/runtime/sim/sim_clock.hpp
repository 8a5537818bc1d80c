#pragma once
// Virtual time: how long an operation takes on a simulated machine, and when the engine or the links that it
// needs are free.

#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shardwise/runtime/sim_topology.hpp"

namespace shardwise {

/// Seconds of a launch (or host work): launch time + items x time of an item / speed.
double sim_launch_s(const Operation& operation, const SimTopology& topology, int device);

/// What is used by one at a time: a device's compute engine, a link. Operations reach it in the scheduler's
/// order, which is not that of virtual time, so each takes the first gap that is long enough; without
/// contention the times then do not depend on the scheduler's seed.
class SimEngine {
 public:
  /// The first moment from `ready_s` on at which it is free for `duration_s`.
  double first_gap(double ready_s, double duration_s) const;
  /// Takes a gap that first_gap() gave.
  void reserve(double begin_s, double duration_s);
  /// Both.
  double take(double ready_s, double duration_s) {
    const double begin = first_gap(ready_s, duration_s);
    reserve(begin, duration_s);
    return begin;
  }

 private:
  /// Beyond these the oldest are forgotten, and nothing begins before their end any more.
  static constexpr std::size_t remembered = 1024;

  std::map<double, double> busy_;  ///< begin -> end, apart, ascending
  double forgotten_until_s_ = 0;
};

/// The links of a topology: which of them a copy passes, and when they are free. Ends are device indices or
/// CopyEnd::host.
class SimLinks {
 public:
  explicit SimLinks(const SimTopology& topology) : topology_(topology) {}
  /// Whether two devices read and write each other's memory.
  bool peer(int from, int to) const;
  /// When a copy that is ready at `ready_s` begins, and how long it takes. `staged`: through host memory,
  /// also where a link joins the ends.
  std::pair<double, double> take(int from, int to, std::uint64_t bytes, double ready_s, bool staged,
                                 double factor);

 private:
  using Channel = std::tuple<int, int, int>;  ///< link, from, to; -2 where all share it
  struct Route {
    double latency_s = 0, bytes_per_s = 0;
    std::vector<std::pair<Channel, double>> channels;  ///< with the speed of each
  };
  bool add_to(Route& route, int from, int to) const;
  const Route& route(int from, int to, bool staged);

  const SimTopology& topology_;
  std::map<std::tuple<int, int, bool>, Route> routes_;
  std::map<Channel, SimEngine> engines_;
};

}  // namespace shardwise
