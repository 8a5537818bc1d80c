#include "shardwise/radio/coverage_ranks.hpp"

#include <fmt/core.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "radio/coverage_plan.hpp"
#include "radio/rank_grids.hpp"
#include "shardwise/dispatch/rank_rows.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/weights.hpp"

namespace shardwise {
namespace {

Stream& master_stream(Scene& scene) {
  return *scene.executor().default_context().streams.front();
}

/// Adds up the grids of all passes in the masters' memory, by NCCL.
void sum_on_devices(Communicator& ranks, Scene& scene, DeviceCollectives& devices, Memory& cells) {
  // From here on a rank that fails would leave the others' GPUs waiting.
  ranks.barrier("coverage: all grids are there");
  Stream& stream = master_stream(scene);
  Operation reduce;
  reduce.name = "sum of the ranks";
  reduce.accesses = {cells.access(AccessMode::write)};
  reduce.body = [&devices, words = static_cast<std::uint64_t*>(cells.data()),
                 count = cells.bytes() / sizeof(std::uint64_t)](LaunchContext& context) {
    devices.sum_to_rank_0(context, words, count);
  };
  stream.enqueue(std::move(reduce));
  stream.synchronize();
  devices.check();
}

/// Rank 0: what lies on the master, as sums on the host.
void download(Scene& scene, const Memory& cells, CoverageSums& sums) {
  sums.cells.resize(cells.bytes() / sizeof(ExactCell));
  Stream& stream = master_stream(scene);
  stream.enqueue(copy_operation("sums to host", sums.cells.data(), cells.data(), cells.bytes(),
                                {cells.access(AccessMode::read)}));
  stream.synchronize();
  for (ExactCell& cell : sums.cells) normalize(cell);
}

/// Rank 0: the map of grids on the master, made there.
CoverageResult finish_on_master(Scene& scene, const CoverageOptions& options, std::shared_ptr<Memory> cells,
                                Window whole) {
  CoverageRequest request = request_of(options);
  request.sums = false;
  request.lane_offset = whole.begin;
  request.lane_count = 0;
  request.held = std::move(cells);
  request.held_lanes = whole;
  request.held_given = true;
  request.progress = {};
  return run_coverage(scene, plan_coverage(scene, std::move(request))).get();
}

}  // namespace

namespace {

/// The lanes of every rank.
std::vector<Window> windows_of_ranks(Communicator& ranks, const DeviceSet& devices, Window whole,
                                     const SplitOptions& split) {
  const double weight = rank_weight(devices, split);
  std::vector<double> weights;
  for (const std::vector<std::byte>& bytes :
       ranks.gather_all(std::as_bytes(std::span(&weight, 1)), "coverage: weights of the ranks"))
    std::memcpy(&weights.emplace_back(), bytes.data(), sizeof(double));
  const std::int64_t granule = split.min_rows_per_device == 0 ? 1 : kLaneGranule;
  std::vector<Window> windows(weights.size(), Window{whole.end(), 0});
  try {
    for (const Shard& shard : split_lanes(whole, Weights::from(weights, weights.size()), granule))
      windows[static_cast<std::size_t>(shard.device)] = shard.window;
  } catch (const std::invalid_argument& error) {
    throw_usage(fmt::format("coverage on ranks: {}", error.what()));
  }
  return windows;
}

/// The lanes of ranks [begin, end), which are one window: some between others may have none.
Window joined(const std::vector<Window>& windows, int begin, int end) {
  Window all{0, 0};
  for (int r = begin; r < end; ++r) {
    const Window& next = windows[static_cast<std::size_t>(r)];
    if (next.empty()) continue;
    if (all.empty()) all.begin = next.begin;
    all.count = next.end() - all.begin;
  }
  return all;
}

/// What each rank and those behind it add to.
std::vector<GridBytes> grids_of_trees(const CoveragePlan& plan, const std::vector<Window>& windows,
                                      std::uint64_t grid_bytes) {
  const int size = static_cast<int>(windows.size());
  std::vector<GridBytes> grids;
  for (int r = 0; r < size; ++r) {
    const auto [first, count] = plan.grids_of(joined(windows, r, end_of_rank_tree(r, size)));
    grids.push_back({static_cast<std::uint64_t>(first) * grid_bytes,
                     static_cast<std::uint64_t>(first + count) * grid_bytes});
  }
  return grids;
}

}  // namespace

Window rank_lanes(Communicator& ranks, const DeviceSet& devices, Window whole, const SplitOptions& split) {
  return windows_of_ranks(ranks, devices, whole, split)[static_cast<std::size_t>(ranks.rank())];
}

CoverageResult coverage_on_ranks(Communicator& ranks, Scene& scene, const CoverageOptions& options,
                                 DeviceCollectives* devices) {
  if (options.accumulation != Accumulation::exact)
    throw_usage(
        "coverage on ranks: sums of ranks are joined exactly; use accumulation = exact, or one process");
  if (options.field)
    throw_usage("coverage on ranks: fields are not joined; leave the field out, or use one process");
  Window whole;
  try {
    whole = lane_window(options.lane_offset, options.lane_count, request_of(options).total_lanes);
  } catch (const std::invalid_argument& error) {
    throw_usage(fmt::format("coverage on ranks: {}", error.what()));
  }
  const std::vector<Window> windows = windows_of_ranks(ranks, scene.devices(), whole, options.split);
  const int rank = ranks.rank();
  const Window mine = windows[static_cast<std::size_t>(rank)];
  CoverageOptions call = options;
  call.sums = true;
  call.lane_offset = mine.begin;
  call.lane_count = mine.count;
  // Without lanes too: whatever is wrong with scene or options is found on every rank.
  CoverageRequest request = request_of(call);
  const auto held = std::make_shared<Memory>();
  request.held = held;
  // NCCL adds up as many words on every rank; else a rank keeps what comes through it.
  request.held_lanes =
      devices != nullptr ? whole : joined(windows, rank, end_of_rank_tree(rank, ranks.size()));
  CoveragePlan plan = plan_coverage(scene, std::move(request));
  const auto grid_bytes = static_cast<std::uint64_t>(plan.cell_count()) * sizeof(ExactCell);
  const std::vector<GridBytes> grids = grids_of_trees(plan, windows, grid_bytes);
  const std::uint64_t held_from = static_cast<std::uint64_t>(plan.master_grids().first) * grid_bytes;
  CoverageResult result = run_coverage(scene, std::move(plan)).get();
  const bool first = rank == 0;
  CoverageSums sums = std::move(result.sums);
  result.sums = {};
  std::int64_t counts[] = {result.segments, result.rejected};
  ranks.sum_to(0, counts, "coverage: counts");
  if (devices != nullptr)
    sum_on_devices(ranks, scene, *devices, *held);
  else
    join_grids(ranks, scene.devices(), master_stream(scene), *held, held_from, grids);
  if (first && options.sums) download(scene, *held, sums);
  if (!first) return result;
  result.segments = counts[0];
  result.rejected = counts[1];
  result.lanes = whole.count;
  if (options.sums) {
    sums.windows.clear();
    if (!whole.empty()) sums.windows = {whole};
    sums.segments = counts[0];
    sums.rejected = counts[1];
    result.sums = std::move(sums);
    return result;
  }
  CoverageResult map = finish_on_master(scene, options, held, whole);
  map.lanes = result.lanes;
  map.segments = result.segments;
  map.rejected = result.rejected;
  map.warnings = std::move(result.warnings);
  map.dispatch = std::move(result.dispatch);
  return map;
}

}  // namespace shardwise
