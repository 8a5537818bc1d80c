#include "shardwise/grid/partition.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

std::int64_t even_split_begin(std::int64_t cells, int parts, int part) {
  const std::int64_t each = cells / parts, more = cells % parts;
  return part * each + (part < more ? part : more);
}

namespace {

bool is_periodic(const CartesianGrid& grid, int d) {
  return grid.boundary(d, 0).kind == BoundaryKind::periodic;
}

/// Cells that one message of all faces carries: sum over cut dimensions of cuts x cross-section.
std::int64_t cut_area(const CartesianGrid& grid, const std::array<int, 3>& p) {
  std::int64_t area = 0;
  for (int d = 0; d < grid.dims(); ++d) {
    const int parts = p[static_cast<std::size_t>(d)];
    if (parts > 1)
      area +=
          (parts - 1 + (is_periodic(grid, d) ? 1 : 0)) * (grid.global_cell_count() / grid.global_cells(d));
  }
  return area;
}

bool fits(const CartesianGrid& grid, int d, int parts) {
  return parts == 1 || grid.global_cells(d) / parts >= grid.halo(d);
}

/// Throws where a part of dimension d would be thinner than the halo.
void check_thickness(const CartesianGrid& grid, int d, int parts) {
  if (fits(grid, d, parts)) return;
  std::vector<std::int64_t> sizes;
  for (int c = 0; c < parts; ++c)
    sizes.push_back(even_split_begin(grid.global_cells(d), parts, c + 1) -
                    even_split_begin(grid.global_cells(d), parts, c));
  const std::int64_t most = grid.global_cells(d) / grid.halo(d);
  throw GridError(GridErrorCode::part_too_thin,
                  fmt::format("partition: dimension {} of {} cells in {} parts gives parts of {} cells; each "
                              "needs at least {} (its halo); use at most {} parts there",
                              d, grid.global_cells(d), parts, fmt::join(sizes, ", "), grid.halo(d), most),
                  {static_cast<double>(parts), static_cast<double>(grid.halo(d)), static_cast<double>(most)});
}

std::array<int, 3> choose(const CartesianGrid& grid, const PartitionRequest& request, int parts) {
  const auto& wanted = request.process_grid;
  const bool any = wanted[0] != 0 || wanted[1] != 0 || wanted[2] != 0;
  std::array<int, 3> p{1, 1, 1};
  const int last = grid.dims() - 1;
  if (!any && !request.blocks) {
    p[static_cast<std::size_t>(last)] = parts;
    return p;
  }
  std::array<int, 3> best{};
  std::int64_t best_area = std::numeric_limits<std::int64_t>::max();
  std::array<int, 3> thin{};
  const auto allowed = [&](int d, int count) {
    const int fixed = d < grid.dims() ? wanted[static_cast<std::size_t>(d)] : 1;
    return fixed == 0 || fixed == count;
  };
  // Slower dimensions vary slowest and from many parts to few, so the first of equal areas cuts slower ones.
  for (p[2] = parts; p[2] >= 1; --p[2])
    for (p[1] = parts / p[2]; p[1] >= 1; --p[1]) {
      if (parts % (p[2] * p[1]) != 0) continue;
      p[0] = parts / (p[2] * p[1]);
      if (!allowed(0, p[0]) || !allowed(1, p[1]) || !allowed(2, p[2])) continue;
      thin = p;
      if (!fits(grid, 0, p[0]) || !fits(grid, 1, p[1]) || !fits(grid, 2, p[2])) continue;
      const std::int64_t area = cut_area(grid, p);
      if (area < best_area) {
        best_area = area;
        best = p;
      }
    }
  if (best[0] != 0) return best;
  if (thin[0] != 0) return thin;  // refused later, with the sizes
  throw GridError(GridErrorCode::bad_part_count,
                  fmt::format("partition: no process grid {} x {} x {} (0 is free) of a grid with {} "
                              "dimensions has {} parts",
                              wanted[0], wanted[1], wanted[2], grid.dims(), parts),
                  {static_cast<double>(parts)});
}

}  // namespace

Partition::Partition(const CartesianGrid& grid, const PartitionRequest& request) : grid_(grid) {
  if (grid.part())
    throw GridError(GridErrorCode::already_partitioned,
                    "partition: the grid is a block of a partition already; build from the global grid");
  int parts = request.parts, product = 1;
  for (const int p : request.process_grid) {
    if (p < 0)
      throw GridError(GridErrorCode::bad_part_count,
                      fmt::format("partition: a process grid with {} parts; 0 means free", p),
                      {static_cast<double>(p)});
    product *= p > 0 ? p : 1;
  }
  if (parts == 0) parts = product;
  if (parts < 1 || parts > 1'000'000)
    throw GridError(GridErrorCode::bad_part_count, fmt::format("partition: {} parts; at least 1", parts),
                    {static_cast<double>(parts)});
  process_grid_ = choose(grid, request, parts);
  for (int d = 0; d < grid.dims(); ++d) check_thickness(grid, d, process_grid_[static_cast<std::size_t>(d)]);
  if (parts == 1) {
    blocks_.push_back(grid);
    return;
  }
  for (int part = 0; part < parts; ++part) {
    const std::array<int, 3> c{part % process_grid_[0], part / process_grid_[0] % process_grid_[1],
                               part / (process_grid_[0] * process_grid_[1])};
    std::array<std::int64_t, 3> first{}, cells{1, 1, 1};
    std::array<std::array<bool, 2>, 3> interface {};
    for (int d = 0; d < grid.dims(); ++d) {
      const auto i = static_cast<std::size_t>(d);
      first[i] = even_split_begin(grid.global_cells(d), process_grid_[i], c[i]);
      cells[i] = even_split_begin(grid.global_cells(d), process_grid_[i], c[i] + 1) - first[i];
      if (process_grid_[i] == 1) continue;
      const bool wraps = is_periodic(grid, d);
      interface[i] = {c[i] > 0 || wraps, c[i] + 1 < process_grid_[i] || wraps};
    }
    blocks_.push_back(grid.block(first, cells, interface, c));
  }
}

std::array<int, 3> Partition::coordinates(int part) const {
  return {part % process_grid_[0], part / process_grid_[0] % process_grid_[1],
          part / (process_grid_[0] * process_grid_[1])};
}

int Partition::neighbour(int part, int dimension, int side) const {
  const auto d = static_cast<std::size_t>(dimension);
  if (block(part).boundary(dimension, side).kind != BoundaryKind::interface) return -1;
  std::array<int, 3> c = coordinates(part);
  const int count = process_grid_[d];
  c[d] = (c[d] + (side == 0 ? count - 1 : 1)) % count;
  return c[0] + process_grid_[0] * (c[1] + process_grid_[1] * c[2]);
}

}  // namespace shardwise
