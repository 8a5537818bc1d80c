#pragma once
// What `shardwise solve` writes: fields as NPY and VTK images, residuals as CSV and PNG, pictures of u, the
// grid.

#include <span>
#include <string>
#include <vector>

#include "solve_run.hpp"

namespace shardwise::program {

/// `[x, y, z]` in C order.
std::string field_npy(const CartesianGrid& grid, std::span<const double> field);
/// VTK XML image data (vtk.org, VTK file formats): cell values, raw appended with 64-bit sizes.
std::string field_vti(const CartesianGrid& grid, std::span<const double> field);
std::string residuals_csv(const SolverResult& result);
std::string residuals_png(const SolveRequest& request, const SolverResult& result);
/// A plane of u as a map, or a line of it as a curve.
std::string field_png(const SolveRequest& request, std::span<const double> field,
                      const std::string& subtitle);
/// `grid` of a report.
Json grid_json(const CartesianGrid& grid);

}  // namespace shardwise::program
