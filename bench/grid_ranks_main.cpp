// The stencil with one process a device against one process with all of them, both exchanging every time:
//
//   mpirun -n 2 bench_grid_ranks cuda 512 20        (devices, cells of a cube a rank, applications a round)
//
// Rank r has device r of its machine. Rank 0 then opens all of them, while the others wait. Prints least and
// median of the rounds, and the ratio: one process over ranks, so above 1 where ranks are faster.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "shardwise/cluster/mpi.hpp"
#include "shardwise/grid/prepared_operator.hpp"
#include "shardwise/runtime/error.hpp"

namespace {

using namespace shardwise;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 9;

struct Times {
  double least = 0, median = 0;
};
Times times_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2]};
}

/// Seconds of one application, by round; `start` brings the ranks together, `finish` makes a round's time
/// that of the slowest.
template <class T, class Start, class Finish>
std::vector<double> measure(const Blocks& blocks, Overlap overlap, int count, const Start& start,
                            const Finish& finish) {
  PrepareOptions options;
  options.overlap = overlap;
  PreparedOperator<T> a(laplacian(blocks.grid()), blocks, options);
  Field<T> x(blocks, "x"), y(blocks, "y");
  x.fill(T(1));
  std::vector<double> seconds;
  for (int round = -2; round < rounds; ++round) {
    blocks.synchronize();
    start();
    const auto begin = Clock::now();
    for (int i = 0; i < count; ++i) a.apply(y, x);
    blocks.synchronize();
    const double s = finish(std::chrono::duration<double>(Clock::now() - begin).count() / count);
    if (round >= 0) seconds.push_back(s);  // the first ones warm up
  }
  return seconds;
}

template <class T>
void compare(const std::shared_ptr<Communicator>& ranks, const std::string& kind, std::int64_t n, int count) {
  const char* const type = sizeof(T) == 4 ? "float" : "double";
  GridSpec spec;
  spec.lo = {0, 0, 0};
  spec.hi = {1, 1, static_cast<double>(ranks->size())};
  spec.cells = {n, n, n * ranks->size()};
  const CartesianGrid grid(spec);
  const std::string own = kind == "host" ? "host:1x1" : fmt::format("{}:{}", kind, ranks->local_rank());
  std::vector<double> one[2];
  if (ranks->rank() == 0) {
    const std::string all = kind == "host" ? fmt::format("host:{}x1", ranks->size()) : [&] {
      std::string list = kind + ":0";
      for (int r = 1; r < ranks->size(); ++r) list += fmt::format(",{}", r);
      return list;
    }();
    const Blocks blocks(grid, LocalDevices{open_devices(all)});
    for (const Overlap overlap : {Overlap::off, Overlap::on})
      one[overlap == Overlap::on] = measure<T>(
          blocks, overlap, count, [] {}, [](double s) { return s; });
  }
  ranks->barrier("one process is through");
  const DeviceSet device = open_devices(own);
  for (const RankRoute route : {RankRoute::automatic, RankRoute::staged}) {
    const Blocks blocks(grid, Mpi{ranks, device, {}, false, {route, route, route}});
    if (ranks->rank() == 0) fmt::print("{}\n", blocks.transport());
    for (const Overlap overlap : {Overlap::off, Overlap::on}) {
      const std::vector<double> mine = measure<T>(
          blocks, overlap, count, [&] { ranks->barrier("round"); },
          [&](double s) {
            ranks->max(std::span(&s, 1), "slowest rank");
            return s;
          });
      if (ranks->rank() != 0) continue;
      const Times a = times_of(mine), b = times_of(one[overlap == Overlap::on]),
                  best = times_of(std::min(times_of(one[0]).least, times_of(one[1]).least) ==
                                          times_of(one[0]).least
                                      ? one[0]
                                      : one[1]);
      fmt::print(
          "laplacian {} {} on {} ranks, {}, {}: {:.1f} us (median {:.1f}); one process {:.1f} us ({:.1f}); "
          "ratio {:.3f} ({:.3f}), against its best form {:.3f} ({:.3f})\n",
          grid.shape_text(), type, ranks->size(), to_string(route),
          overlap == Overlap::on ? "overlapped" : "blocking", a.least * 1e6, a.median * 1e6, b.least * 1e6,
          b.median * 1e6, b.least / a.least, b.median / a.median, best.least / a.least,
          best.median / a.median);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "cuda";
  const std::int64_t n = argc > 2 ? std::atoll(argv[2]) : 512;
  const int count = argc > 3 ? std::atoi(argv[3]) : 20;
  if (argc > 4 || n < 2 || count < 1) {
    fmt::print(stderr, "bench_grid_ranks [cuda|host] [CELLS] [APPLICATIONS]: '{}' cells, {} applications\n",
               n, count);
    return 2;
  }
  const std::shared_ptr<Communicator> ranks = mpi_world({});
  try {
    try {
      compare<float>(ranks, kind, n, count);
      compare<double>(ranks, kind, n, count);
    } catch (const Error& error) {
      ranks->fail(error);
    }
  } catch (const RankError& error) {
    if (ranks->rank() == 0) fmt::print(stderr, "bench_grid_ranks: {}\n", error.what());
    return 1;
  }
  return 0;
}
