#include "shardwise/grid/cartesian_grid.hpp"

#include <fmt/format.h>

#include <cmath>

#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

namespace {

constexpr std::int64_t most_cells = std::int64_t{1} << 40;

void check_boundary(const Boundary& boundary, int d, int side, const std::array<std::int64_t, 3>& cells,
                    double spacing) {
  const char* const name = side == 0 ? "low" : "high";
  if (boundary.kind == BoundaryKind::interface)
    throw GridError(GridErrorCode::bad_boundary,
                    fmt::format("grid: the {} face of dimension {} is an interface; partitions make these, "
                                "give a condition",
                                name, d),
                    {static_cast<double>(d)});
  if (boundary.kind == BoundaryKind::robin) {
    const double slope = boundary.b / spacing, pivot = slope + boundary.a / 2;
    if (std::abs(pivot) < 1e-12 * (std::abs(boundary.a) + std::abs(slope)))
      throw GridError(
          GridErrorCode::bad_boundary,
          fmt::format("grid: the Robin condition on the {} face of dimension {} determines no ghost value: "
                      "b / spacing + a / 2 is {} for a = {}, b = {}, spacing {}; change a, b or the cells",
                      name, d, pivot, boundary.a, boundary.b, spacing),
          {boundary.a, boundary.b, spacing});
  }
  if (boundary.values) {
    std::int64_t face = 1;
    for (int e = 0; e < 3; ++e)
      if (e != d) face *= cells[static_cast<std::size_t>(e)];
    if (static_cast<std::int64_t>(boundary.values->size()) != face)
      throw GridError(GridErrorCode::size_mismatch,
                      fmt::format("grid: the {} face of dimension {} has {} cells, but {} values were given",
                                  name, d, face, boundary.values->size()),
                      {static_cast<double>(face), static_cast<double>(boundary.values->size())});
  }
}

}  // namespace

CartesianGrid::CartesianGrid(const GridSpec& spec) {
  dims_ = static_cast<int>(spec.cells.size());
  const auto dims = spec.cells.size();
  if (dims < 1 || dims > 3)
    throw GridError(GridErrorCode::bad_cells,
                    fmt::format("grid: 1 to 3 dimensions, but cells has {} entries", dims),
                    {static_cast<double>(dims)});
  if (spec.lo.size() != dims || spec.hi.size() != dims)
    throw GridError(GridErrorCode::bad_extent,
                    fmt::format("grid: lo has {} and hi {} entries for {} dimensions", spec.lo.size(),
                                spec.hi.size(), dims),
                    {static_cast<double>(spec.lo.size()), static_cast<double>(spec.hi.size())});
  if (!spec.boundaries.empty() && spec.boundaries.size() != dims)
    throw GridError(
        GridErrorCode::bad_boundary,
        fmt::format("grid: boundaries has {} entries for {} dimensions", spec.boundaries.size(), dims),
        {static_cast<double>(spec.boundaries.size())});
  if (!spec.halo.empty() && spec.halo.size() != dims)
    throw GridError(GridErrorCode::bad_halo,
                    fmt::format("grid: halo has {} entries for {} dimensions", spec.halo.size(), dims),
                    {static_cast<double>(spec.halo.size())});
  std::int64_t total = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    if (!std::isfinite(spec.lo[d]) || !std::isfinite(spec.hi[d]) || !(spec.lo[d] < spec.hi[d]))
      throw GridError(GridErrorCode::bad_extent,
                      fmt::format("grid: dimension {} goes from {} to {}; lo < hi, both finite, is needed", d,
                                  spec.lo[d], spec.hi[d]),
                      {static_cast<double>(d), spec.lo[d], spec.hi[d]});
    if (spec.cells[d] < 1 || spec.cells[d] > most_cells / total)
      throw GridError(GridErrorCode::bad_cells,
                      fmt::format("grid: dimension {} has {} cells; at least 1, and at most 2^40 in all", d,
                                  spec.cells[d]),
                      {static_cast<double>(d), static_cast<double>(spec.cells[d])});
    total *= spec.cells[d];
    lo_[d] = spec.lo[d];
    hi_[d] = spec.hi[d];
    global_[d] = cells_[d] = spec.cells[d];
    spacing_[d] = (hi_[d] - lo_[d]) / static_cast<double>(global_[d]);
    halo_[d] = spec.halo.empty() ? 1 : spec.halo[d];
    if (halo_[d] < 1)
      throw GridError(GridErrorCode::bad_halo,
                      fmt::format("grid: dimension {} has {} ghost layers; at least 1", d, halo_[d]),
                      {static_cast<double>(d), static_cast<double>(halo_[d])});
    if (cells_[d] < halo_[d])
      throw GridError(
          GridErrorCode::thin_dimension,
          fmt::format("grid: dimension {} has {} cells for {} ghost layers: a layer's source "
                      "must be an owned cell; use more cells or a smaller halo",
                      d, cells_[d], halo_[d]),
          {static_cast<double>(d), static_cast<double>(cells_[d]), static_cast<double>(halo_[d])});
  }
  for (std::size_t d = 0; d < dims && !spec.boundaries.empty(); ++d) {
    const BoundaryPair& pair = spec.boundaries[d];
    if ((pair.low.kind == BoundaryKind::periodic) != (pair.high.kind == BoundaryKind::periodic))
      throw GridError(GridErrorCode::periodic_unpaired,
                      fmt::format("grid: dimension {} is {} on its low and {} on its high face; periodic "
                                  "means both",
                                  d, to_string(pair.low.kind), to_string(pair.high.kind)),
                      {static_cast<double>(d)});
    check_boundary(pair.low, static_cast<int>(d), 0, cells_, spacing_[d]);
    check_boundary(pair.high, static_cast<int>(d), 1, cells_, spacing_[d]);
    boundary_[d] = {pair.low, pair.high};
  }
  for (std::size_t d = dims; d < 3; ++d) boundary_[d] = {Boundary::neumann(), Boundary::neumann()};
}

double CartesianGrid::centre(int d, std::int64_t i) const {
  return std::fma(static_cast<double>(first(d) + i) + 0.5, spacing(d), lo(d));
}

std::string CartesianGrid::difference(const CartesianGrid& other) const {
  if (dims_ != other.dims_) return fmt::format("dimensions: {} against {}", dims_, other.dims_);
  for (int d = 0; d < dims_; ++d) {
    const auto differ = [&](const char* what, auto mine, auto theirs) {
      return mine == theirs ? std::string()
                            : fmt::format("{} of dimension {}: {} against {}", what, d, mine, theirs);
    };
    for (const std::string& text :
         {differ("lo", lo(d), other.lo(d)), differ("hi", hi(d), other.hi(d)),
          differ("cells", global_cells(d), other.global_cells(d)),
          differ("spacing", spacing(d), other.spacing(d)), differ("halo", halo(d), other.halo(d)),
          differ("first cell", first(d), other.first(d)), differ("owned cells", cells(d), other.cells(d))})
      if (!text.empty()) return text;
    for (int side = 0; side < 2; ++side) {
      const std::string text = boundary(d, side).difference(other.boundary(d, side));
      if (!text.empty())
        return fmt::format("{} boundary of dimension {}: {}", side == 0 ? "low" : "high", d, text);
    }
  }
  if (part_ != other.part_) return "one is a block of a partition, or another block";
  return "";
}

CartesianGrid CartesianGrid::coarsened(std::array<bool, 3> halved) const {
  if (part_)
    throw GridError(GridErrorCode::already_partitioned,
                    "grid: a block cannot be coarsened; coarsen the global grid and partition that");
  CartesianGrid coarse = *this;
  for (int d = 0; d < dims_; ++d) {
    if (!halved[at(d)]) continue;
    if (cells(d) % 2 != 0 || cells(d) / 2 < halo(d))
      throw GridError(GridErrorCode::odd_cells,
                      fmt::format("grid: dimension {} with {} cells and {} ghost layers cannot be halved", d,
                                  cells(d), halo(d)),
                      {static_cast<double>(d), static_cast<double>(cells(d))});
    coarse.global_[at(d)] = coarse.cells_[at(d)] = cells(d) / 2;
    coarse.spacing_[at(d)] = 2 * spacing(d);
  }
  // Values for each cell of a face belong to the fine grid; on coarse grids conditions are homogeneous.
  for (auto& faces : coarse.boundary_)
    for (Boundary& boundary : faces) {
      boundary.values = nullptr;
      boundary.value = 0;
    }
  return coarse;
}

CartesianGrid CartesianGrid::block(const std::array<std::int64_t, 3>& first,
                                   const std::array<std::int64_t, 3>& cells,
                                   const std::array<std::array<bool, 2>, 3>& interface,
                                   const std::array<int, 3>& part) const {
  if (part_)
    throw GridError(GridErrorCode::already_partitioned,
                    "grid: this is a block already; partition the global grid");
  CartesianGrid result = *this;
  result.first_ = first;
  result.cells_ = cells;
  result.part_ = part;
  for (std::size_t d = 0; d < 3; ++d)
    for (std::size_t side = 0; side < 2; ++side)
      if (interface[d][side]) result.boundary_[d][side] = Boundary::interface();
  return result;
}

std::string CartesianGrid::shape_text() const {
  std::string text;
  for (int d = 0; d < dims_; ++d) text += fmt::format("{}{}", d == 0 ? "" : " x ", cells(d));
  return text;
}

}  // namespace shardwise
