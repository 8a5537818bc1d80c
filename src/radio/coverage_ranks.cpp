#include "shardwise/radio/coverage_ranks.hpp"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>

#include "radio/coverage_plan.hpp"
#include "shardwise/dispatch/rank_rows.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/weights.hpp"

namespace shardwise {
namespace {

constexpr int part_tag = 1, grid_tag = 2;

/// What is said of sums before their grids follow.
struct PartOfSums {
  std::int64_t cell_count, grids_per_pass, first_grid, cells, segments, rejected, windows;
  double scale;
};

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

void send_sums(Communicator& ranks, CoverageSums& sums, int target) {
  PartOfSums part{sums.cell_count,
                  sums.grids_per_pass,
                  sums.first_grid,
                  static_cast<std::int64_t>(sums.cells.size()),
                  sums.segments,
                  sums.rejected,
                  static_cast<std::int64_t>(sums.windows.size()),
                  sums.scale};
  const auto head = ranks.send(std::as_bytes(std::span(&part, 1)), target, part_tag, "coverage: parts");
  const auto windows = ranks.send(bytes_of(sums.windows), target, part_tag, "coverage: parts");
  const auto cells = ranks.send(bytes_of(sums.cells), target, grid_tag, "coverage: exact grids");
  head->wait();
  windows->wait();
  cells->wait();
}

CoverageSums receive_sums(Communicator& ranks, int source) {
  PartOfSums part;
  ranks.receive(std::as_writable_bytes(std::span(&part, 1)), source, part_tag, "coverage: parts")->wait();
  CoverageSums sums;
  sums.cell_count = part.cell_count;
  sums.grids_per_pass = static_cast<int>(part.grids_per_pass);
  sums.first_grid = part.first_grid;
  sums.scale = part.scale;
  sums.segments = part.segments;
  sums.rejected = part.rejected;
  sums.windows.resize(static_cast<std::size_t>(part.windows));
  sums.cells.resize(static_cast<std::size_t>(part.cells));
  ranks.receive(bytes_of(sums.windows), source, part_tag, "coverage: parts")->wait();
  ranks.receive(bytes_of(sums.cells), source, grid_tag, "coverage: exact grids")->wait();
  return sums;
}

/// A tree: at each step every other rank that is left gives its sums to its lower neighbour. Integers, so
/// that the order does not matter.
void join_on_rank_0(Communicator& ranks, CoverageSums& sums) {
  for (int step = 1; step < ranks.size(); step *= 2) {
    if ((ranks.rank() & step) != 0) {
      send_sums(ranks, sums, ranks.rank() - step);
      sums = {};
      return;
    }
    if (ranks.rank() + step < ranks.size()) merge(sums, receive_sums(ranks, ranks.rank() + step));
  }
}

Stream& master_stream(Scene& scene) {
  return *scene.executor().default_context().streams.front();
}

/// The same in the masters' memory: grids of the same passes on every rank.
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

Window rank_lanes(Communicator& ranks, const DeviceSet& devices, Window whole, const SplitOptions& split) {
  const double weight = rank_weight(devices, split);
  std::vector<double> weights;
  for (const std::vector<std::byte>& bytes :
       ranks.gather_all(std::as_bytes(std::span(&weight, 1)), "coverage: weights of the ranks"))
    std::memcpy(&weights.emplace_back(), bytes.data(), sizeof(double));
  const std::int64_t granule = split.min_rows_per_device == 0 ? 1 : kLaneGranule;
  try {
    for (const Shard& shard : split_lanes(whole, Weights::from(weights, weights.size()), granule))
      if (shard.device == ranks.rank()) return shard.window;
  } catch (const std::invalid_argument& error) {
    throw_usage(fmt::format("coverage on ranks: {}", error.what()));
  }
  return {whole.end(), 0};
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
  const Window mine = rank_lanes(ranks, scene.devices(), whole, options.split);
  CoverageOptions call = options;
  call.sums = true;
  call.lane_offset = mine.begin;
  call.lane_count = mine.count;
  // Without lanes too: whatever is wrong with scene or options is found on every rank.
  CoverageRequest request = request_of(call);
  auto held = std::make_shared<Memory>();
  if (devices != nullptr) {
    request.held = held;
    request.held_lanes = whole;
  }
  CoverageResult result = run_coverage(scene, plan_coverage(scene, std::move(request))).get();
  const bool first = ranks.rank() == 0;
  CoverageSums sums = std::move(result.sums);
  result.sums = {};
  std::int64_t counts[] = {result.segments, result.rejected};
  ranks.sum_to(0, counts, "coverage: counts");
  if (devices != nullptr) {
    sum_on_devices(ranks, scene, *devices, *held);
    if (first && options.sums) download(scene, *held, sums);
  } else {
    if (mine.empty()) sums = {};
    join_on_rank_0(ranks, sums);
  }
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
  if (devices == nullptr && !sums.cells.empty()) {
    const std::uint64_t bytes = sums.cells.size() * sizeof(ExactCell);
    *held = Memory(master_stream(scene), bytes, "sums of the ranks");
    master_stream(scene).enqueue(copy_operation("sums to master", held->data(), sums.cells.data(), bytes,
                                                {held->access(AccessMode::write)}));
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
