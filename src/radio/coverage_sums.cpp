#include "shardwise/radio/coverage_sums.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "radio/coverage_plan.hpp"
#include "radio/coverage_steps_kernel.hpp"
#include "shardwise/radio/coverage.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

/// The union of two sorted lists of disjoint windows. Throws where they overlap.
std::vector<Window> unite(const std::vector<Window>& a, const std::vector<Window>& b) {
  std::vector<Window> all;
  std::ranges::merge(a, b, std::back_inserter(all), {}, &Window::begin, &Window::begin);
  std::vector<Window> joined;
  for (const Window& window : all) {
    if (joined.empty() || joined.back().end() < window.begin) {
      joined.push_back(window);
    } else if (joined.back().end() == window.begin) {
      joined.back().count += window.count;
    } else {
      throw_usage(fmt::format("lanes {} to {} are in both sums; each lane may be counted once", window.begin,
                              std::min(joined.back().end(), window.end())));
    }
  }
  return joined;
}

void add_cells(ExactCell* target, const ExactCell* from, std::int64_t count) {
  const MergeExact add{target, from, nullptr, nullptr};
  for (std::int64_t i = 0; i < count; ++i) add(i);
}

/// The grids [0, passes x grids_per_pass), zero where the sums have none.
std::vector<ExactCell> whole_grids(const CoverageSums& sums, int passes) {
  const std::int64_t grids = static_cast<std::int64_t>(passes) * sums.grids_per_pass;
  std::vector<ExactCell> cells(static_cast<std::size_t>(grids * sums.cell_count), ExactCell{});
  const std::int64_t first = std::min(sums.first_grid, grids),
                     end = std::min(sums.first_grid + sums.grid_count(), grids);
  std::copy_n(sums.cells.data(), (end - first) * sums.cell_count, cells.data() + first * sums.cell_count);
  return cells;
}

}  // namespace

std::int64_t CoverageSums::lanes() const {
  std::int64_t count = 0;
  for (const Window& window : windows) count += window.count;
  return count;
}

void merge(CoverageSums& target, const CoverageSums& other) {
  if (target.cells.empty()) {
    target = other;
    return;
  }
  if (other.cells.empty()) return;
  if (target.cell_count != other.cell_count || target.grids_per_pass != other.grids_per_pass ||
      target.scale != other.scale)
    throw_usage(fmt::format(
        "sums of different calls: {} cells, {} grids a pass, scale {} against {} cells, {} grids, "
        "scale {}",
        target.cell_count, target.grids_per_pass, target.scale, other.cell_count, other.grids_per_pass,
        other.scale));
  std::vector<Window> windows = unite(target.windows, other.windows);
  const std::int64_t first = std::min(target.first_grid, other.first_grid),
                     end = std::max(target.first_grid + target.grid_count(),
                                    other.first_grid + other.grid_count());
  if (first != target.first_grid || end != target.first_grid + target.grid_count()) {
    std::vector<ExactCell> cells(static_cast<std::size_t>((end - first) * target.cell_count), ExactCell{});
    std::ranges::copy(target.cells, cells.begin() + (target.first_grid - first) * target.cell_count);
    target.cells = std::move(cells);
    target.first_grid = first;
  }
  add_cells(target.cells.data() + (other.first_grid - first) * target.cell_count, other.cells.data(),
            static_cast<std::int64_t>(other.cells.size()));
  target.windows = std::move(windows);
  target.segments += other.segments;
  target.rejected += other.rejected;
}

std::vector<Window> gaps(const std::vector<Window>& windows, Window whole) {
  std::vector<Window> open;
  std::int64_t from = whole.begin;
  for (const Window& window : windows) {
    if (window.end() <= from) continue;
    if (window.begin >= whole.end()) break;
    if (window.begin > from) open.push_back({from, window.begin - from});
    from = window.end();
  }
  if (from < whole.end()) open.push_back({from, whole.end() - from});
  return open;
}

CoverageResult finish_coverage(const CoverageOptions& options, const CoverageSums& sums) {
  const CoverageRequest request = request_of(options);
  const auto cell_count = request.grid.cell_count();
  if (sums.cell_count != cell_count || sums.grids_per_pass != request.grids_per_pass())
    throw_usage(fmt::format("the sums have {} cells and {} grids a pass, the options ask for {} and {}",
                            sums.cell_count, sums.grids_per_pass, cell_count, request.grids_per_pass()));
  if (!is_sum_scale(sums.scale))
    throw_usage(fmt::format("the sums have the scale {}; it must be a positive power of two", sums.scale));
  if (sums.cells.size() % static_cast<std::size_t>(cell_count * sums.grids_per_pass) != 0 ||
      sums.first_grid % sums.grids_per_pass != 0)
    throw_usage(
        fmt::format("the sums have {} cell sums from grid {} on, which are no whole passes of {} cells",
                    sums.cells.size(), sums.first_grid, cell_count));

  const auto cells = static_cast<std::size_t>(cell_count);
  const std::size_t groups = options.per_transmitter ? options.transmitters.size() : 0;
  std::vector<ExactCell> grids = whole_grids(sums, options.passes);
  const std::vector<Window> missing = gaps(sums.windows, {0, request.total_lanes});
  const bool with_error = options.passes > 1 && missing.empty();
  CoverageResult result;
  FinishTarget target = finish_constants(request, sums.scale);
  target.cell_count = cell_count * sums.grids_per_pass;  // from one pass to the next
  const auto finish = [&](std::int64_t group, double* gain, double* error, std::int64_t* crossings) {
    target.gain = gain;
    target.standard_error = with_error ? error : nullptr;
    target.crossings = crossings;
    const FinishExact body{target, grids.data() + group * cell_count, nullptr};
    for (std::int64_t cell = 0; cell < cell_count; ++cell) body(cell);
  };
  result.transmitter_gain.resize(groups * cells);
  result.transmitter_crossings.resize(groups * cells);
  if (with_error) result.transmitter_standard_error.resize(groups * cells);
  for (std::size_t t = 0; t < groups; ++t)
    finish(static_cast<std::int64_t>(t), result.transmitter_gain.data() + t * cells,
           result.transmitter_standard_error.data() + t * cells,
           result.transmitter_crossings.data() + t * cells);
  for (int pass = 0; pass < options.passes; ++pass)
    for (std::size_t t = 1; t < groups; ++t) {
      ExactCell* first = grids.data() + pass * target.cell_count;
      add_cells(first, first + static_cast<std::int64_t>(t) * cell_count, cell_count);
    }
  result.gain.resize(cells);
  result.crossings.resize(cells);
  if (with_error) result.standard_error.resize(cells);
  finish(0, result.gain.data(), result.standard_error.data(), result.crossings.data());

  result.lanes = request.total_lanes;
  for (const Window& gap : missing) result.lanes -= gap.count;
  result.rays_per_pass = request.rays_per_pass;
  result.segments = sums.segments;
  result.rejected = sums.rejected;
  return result;
}

}  // namespace shardwise
