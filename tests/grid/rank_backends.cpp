// grid_mpi_tests: one part a rank.

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include "grid/backends.hpp"
#include "grid/rank_cases.hpp"

namespace shardwise::grid_test {

namespace {

bool is_one(const Serial& s) {
  return s.parts == 1 || s.process_grid == std::array{1, 1, 1};
}

/// Process grids of as many parts as there are ranks that the grid is large enough for, slabs first.
std::vector<std::array<int, 3>> process_grids(const CartesianGrid& grid) {
  const int n = ranks().size();
  std::vector<std::array<int, 3>> all;
  for (const std::array<int, 3>& p : {std::array{0, 0, 0}, {2, 2, 1}, {2, 1, 2}, {n, 1, 1}, {1, n, 1}}) {
    const bool fits = p[0] == 0 || p[0] * p[1] * p[2] == n;
    if (!fits || (n == 1 && p[0] != 0)) continue;
    if ((p[1] > 1 && grid.dims() < 2) || (p[2] > 1 && grid.dims() < 3)) continue;
    if (grid.dims() == 1 && p[0] != 0) continue;  // slabs are that
    try {
      (void)Partition(grid, {n, p, false});
    } catch (const GridError&) {
      continue;  // too thin
    }
    all.push_back(p);
  }
  if (all.empty())
    throw std::logic_error("the test's grid " + grid.shape_text() + " cannot be cut into " +
                           std::to_string(n) + " parts");
  return all;
}

AnyBackend rank_cut(const std::array<int, 3>& process_grid, RankRoute route, const DeviceSet& device) {
  const Mpi backend{world(), device, process_grid, false, {route, route, route}};
  return AnyBackend(backend, text_of(backend));
}

std::vector<AnyBackend> rank_cuts(const CartesianGrid& grid, const std::vector<Serial>& wanted,
                                  const DeviceSet& device) {
  std::vector<AnyBackend> all;
  bool cut_too = false;
  for (const Serial& s : wanted) {
    cut_too = cut_too || !is_one(s);
    if (is_one(s)) all.emplace_back(s, "one process");
  }
  if (!cut_too) return all;
  const std::vector<std::array<int, 3>> grids = process_grids(grid);
  all.push_back(rank_cut(grids.front(), RankRoute::automatic, device));
  if (grids.size() > 1) all.push_back(rank_cut(grids[1], RankRoute::staged, device));
  return all;
}

}  // namespace

std::vector<AnyBackend> cuts(const CartesianGrid& grid, const std::vector<Serial>& wanted) {
  return rank_cuts(grid, wanted, rank_device());
}

AnyBackend cut(const CartesianGrid& grid, const Serial& wanted) {
  return cut_on(rank_device(), grid, wanted);
}

AnyBackend cut_on(const DeviceSet& devices, const CartesianGrid& grid, const Serial& wanted) {
  const std::vector<AnyBackend> all = rank_cuts(grid, {wanted}, devices);
  return wanted.process_grid == std::array{0, 0, 0} ? all.front() : all.back();
}

std::vector<AnyBackend> cuts_on(const std::string& spec, const CartesianGrid& grid,
                                const std::vector<Serial>& wanted) {
  return rank_cuts(grid, wanted, open_devices(spec.starts_with("sim") ? "sim:1" : "host:1x1"));
}

bool on_ranks() {
  return true;
}
int processes() {
  return ranks().size();
}
int process() {
  return ranks().rank();
}
double sum_of_processes(double value) {
  return rank_sum(value);
}
std::int64_t sum_of_processes(std::int64_t value) {
  ranks().sum(std::span(&value, 1), "test sum");
  return value;
}

Failure failure_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  const RankError error = testing::agreed_error(call);
  return {error.error_class(), error.what(), false,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

}  // namespace shardwise::grid_test
