#include "coverage_warnings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "radio/surface_material.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/scene/wedges.hpp"

namespace shardwise::program {
namespace {

constexpr double near_m = 2;

constexpr std::size_t most_warnings = 10;

/// Thousands of transmitters can have thousands of remarks; after some of them the rest is counted.
void cap(std::vector<std::string>& warnings) {
  if (warnings.size() <= most_warnings + 1) return;
  const std::size_t more = warnings.size() - most_warnings;
  warnings.resize(most_warnings);
  warnings.push_back(fmt::format("{} more warnings like these about transmitters are left out", more));
}

/// Rays stand for waves that are short against what they meet.
void warn_of_wavelength(std::vector<std::string>& warnings, const CoverageRequest& request,
                        const Bounds& bounds) {
  const double wavelength = speed_of_light / request.options.frequency_hz;
  const double diagonal = length(bounds.high - bounds.low);
  if (wavelength <= 0.1 * diagonal) return;
  warnings.push_back(fmt::format(
      "--frequency {} is a wavelength of {:.4g} m in a scene of {:.4g} m; rays are right for waves much "
      "shorter than what they meet. A number without a unit is in Hz: 3.5G is 3.5 GHz",
      request.frequency, wavelength, diagonal));
}

/// "transmitter 0 (1, 2, 3)", in the file's coordinates.
std::string name_of(const CoverageRequest& request, std::size_t i) {
  const Vec3d p = request.options.transmitters[i].position + request.origin_shift;
  return fmt::format("transmitter {} ({:.10g}, {:.10g}, {:.10g})", i, p.x, p.y, p.z);
}

void warn_of_surfaces(std::vector<std::string>& warnings, const std::string& name, const Vec3d& p,
                      const Surfaces& surfaces) {
  const auto warn = [&](const Surfaces::Surface& surface, const char* side) {
    warnings.push_back(
        fmt::format("{} has a surface {:.2f} m {} it: shape '{}' at z = {:.2f} m; move it if that is not "
                    "meant",
                    name, surface.distance, side, surface.shape, surface.z));
  };
  if (const auto above = surfaces.above(p, near_m)) warn(*above, "above");
  if (const auto below = surfaces.below(p, near_m)) warn(*below, "below");
}

/// The count that 5 % of the reached cells lie under.
std::int64_t low_crossings(const std::vector<std::int64_t>& crossings) {
  std::vector<std::int64_t> counts;
  std::ranges::copy_if(crossings, std::back_inserter(counts), [](std::int64_t count) { return count > 0; });
  const auto place = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 20);
  std::ranges::nth_element(counts, place);
  return *place;
}

/// Two digits, upwards: 12M, 3.2M, 450k.
std::string about(double count) {
  const double unit = std::pow(10, std::floor(std::log10(count)) - 1);
  const double rounded = std::ceil(count / unit - 1e-9) * unit;
  for (const auto& [size, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (rounded >= size) return fmt::format("{:g}{}", rounded / size, name);
  return fmt::format("{:.0f}", rounded);
}

std::string thin_cells(const CoverageReport& report) {
  const CoverageRequest& request = *report.request;
  const double missing =
      16.0 / static_cast<double>(std::max<std::int64_t>(1, low_crossings(report.result->crossings)));
  return fmt::format(
      "{} of {} reached cells ({:.0f} %) have under 16 crossings; give about --samples {} (now {} per "
      "transmitter) or --cell {:.2g} (now {:g}), or more where that reaches cells anew",
      report.under_16, report.reached,
      100.0 * static_cast<double>(report.under_16) / static_cast<double>(report.reached),
      about(missing * static_cast<double>(request.options.samples)), count_text(request.options.samples),
      request.cell * std::sqrt(missing), request.cell);
}

}  // namespace

std::vector<std::string> place_warnings(const CoverageRequest& request, const SceneModel& model,
                                        const Surfaces& surfaces) {
  std::vector<std::string> warnings;
  const CoverageGrid& grid = request.options.grid;
  const int first = grid.axis == 0 ? 1 : 0, second = grid.axis == 2 ? 1 : 2;
  const Vec3d shift = request.origin_shift;
  const InsideTest solids(model);
  for (std::size_t i = 0; i < request.options.transmitters.size(); ++i) {
    const Vec3d& p = request.options.transmitters[i].position;
    const std::string name = name_of(request, i);
    if (p[first] < grid.min0 || p[first] > grid.max0 || p[second] < grid.min1 || p[second] > grid.max1) {
      warnings.push_back(fmt::format("{} is outside the map's area ({:.10g}, {:.10g}) to ({:.10g}, {:.10g})",
                                     name, grid.min0 + shift[first], grid.min1 + shift[second],
                                     grid.max0 + shift[first], grid.max1 + shift[second]));
    }
    if (solids.inside(p)) {
      const auto above = surfaces.above(p);
      warnings.push_back(
          fmt::format("{} is inside a solid: {}; no wall lets anything through, move it out, or to "
                      "x,y,roof+3",
                      name,
                      above ? fmt::format("shape '{}' is {:.2f} m above it, at z = {:.2f} m", above->shape,
                                          above->distance, above->z)
                            : "an odd number of faces is above it"));
    }
    warn_of_surfaces(warnings, name, p, surfaces);
  }
  cap(warnings);
  warn_of_wavelength(warnings, request, surfaces.bounds());
  if (grid.axis != 2) return warnings;
  const auto ground = surfaces.ground_range({grid.min0, grid.min1, grid.max0, grid.max1});
  if (ground && grid.position < ground->low) {
    warnings.push_back(
        fmt::format("the map at z = {:g} m lies under every surface: the ground is between z = {:.2f} m "
                    "and z = {:.2f} m; raise --height, or give --height ground+1.5",
                    grid.position, ground->low, ground->high));
  }
  return warnings;
}

std::vector<std::string> result_warnings(const CoverageReport& report) {
  std::vector<std::string> warnings;
  // Of a window's share nothing can be said.
  if (!report.request->pieces.has_window &&
      static_cast<double>(report.under_16) > 0.05 * static_cast<double>(report.reached)) {
    warnings.push_back(thin_cells(report));
  }
  for (std::size_t i = 0; i < report.open_reached.size(); ++i) {
    const double share =
        static_cast<double>(report.open_reached[i]) / static_cast<double>(report.census.open);
    if (report.census.open == 0 || share >= least_reach) continue;
    warnings.push_back(fmt::format("{} reaches {} of {} open cells ({:.1f} %); check where it stands",
                                   name_of(*report.request, i), report.open_reached[i], report.census.open,
                                   100 * share));
  }
  cap(warnings);
  if (report.result->rejected > 0) {
    warnings.push_back(fmt::format("{} lanes were inactive (degenerate input)", report.result->rejected));
  }
  if (report.target && !report.target->met) {
    warnings.push_back(
        fmt::format("--target-error {:g}dB is not met: the median error is {} after {} passes; {}",
                    report.target->asked_db,
                    report.target->reached_db ? fmt::format("{:.3g} dB", *report.target->reached_db)
                                              : "unknown (no cell has 16 crossings)",
                    report.request->options.passes,
                    report.reached > 0 ? "raise --samples or --cell" : "no cell is reached"));
  }
  return warnings;
}

}  // namespace shardwise::program
