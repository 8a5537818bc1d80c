#pragma once
// Backends of the ranks that a test runs on, and what is summed over them.

#include <cstdlib>
#include <string>
#include <vector>

#include "cluster/rank_fixture.hpp"
#include "grid/grid_cases.hpp"

namespace shardwise::grid_test {

using shardwise::testing::ranks;

/// The world's communicator, which main() owns.
inline std::shared_ptr<Communicator> world() {
  return {std::shared_ptr<void>(), &ranks()};
}

/// Set to "cuda", SHARDWISE_TEST_RANK_DEVICES gives every rank the GPU of its number on its machine.
inline DeviceSet rank_device() {
  const char* kind = std::getenv("SHARDWISE_TEST_RANK_DEVICES");
  if (!kind || !*kind) return {};
  static const DeviceSet device =
      open_devices(std::string(kind) + ":" + std::to_string(ranks().local_rank()));
  return device;
}
inline bool on_gpus() {
  return rank_device().size() > 0;
}
/// Slabs on what this rank has.
inline Mpi rank_backend() {
  return Mpi{world(), rank_device()};
}

/// Slabs and blocks of as many parts as there are ranks, over both routes and on all kinds of devices.
inline std::vector<Mpi> rank_backends(int dims, bool all_devices = true) {
  const int n = ranks().size();
  std::vector<std::array<int, 3>> grids{{0, 0, 0}};
  if (dims > 1 && n > 1) grids.push_back({n, 1, 1});
  if (dims > 2 && n > 1) grids.push_back({1, n, 1});
  if (dims > 1 && n == 4) grids.push_back({2, 2, 1});
  if (dims > 2 && n == 4) grids.push_back({2, 1, 2});
  std::vector<std::string> devices{""};
  if (all_devices && !on_gpus()) devices = {"", "host:1x1", "sim:1"};
  std::vector<Mpi> all;
  for (const std::array<int, 3>& grid : grids)
    for (const std::string& spec : devices)
      for (const RankRoute route : {RankRoute::automatic, RankRoute::staged}) {
        if (route == RankRoute::staged && spec == "sim:1") continue;
        all.push_back(
            {world(), spec.empty() ? rank_device() : open_devices(spec), grid, false, {route, route, route}});
      }
  // Routes that differ by dimension.
  if (dims > 1 && n == 4)
    all.push_back({world(),
                   rank_device(),
                   {2, 2, 1},
                   false,
                   {RankRoute::staged, RankRoute::automatic, RankRoute::staged}});
  return all;
}

inline std::string text_of(const Mpi& backend) {
  return "process grid " + std::to_string(backend.process_grid[0]) + std::to_string(backend.process_grid[1]) +
         std::to_string(backend.process_grid[2]) + " on " +
         (backend.devices.size() > 0 ? backend.devices.spec() : "the thread") + " " +
         to_string(backend.route[0]) + "/" + to_string(backend.route[1]);
}

inline double rank_sum(double value) {
  ranks().sum(std::span(&value, 1), "test sum");
  return value;
}

}  // namespace shardwise::grid_test
