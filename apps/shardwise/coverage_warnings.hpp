#pragma once
// What a user should know of a coverage run: of where things stand, before it, and of its result.

#include <string>
#include <vector>

#include "coverage_report.hpp"
#include "coverage_request.hpp"
#include "surfaces.hpp"

namespace shardwise::program {

/// Transmitters outside the map, inside a solid, or with a surface within 2 m above or below; a map under
/// every surface.
std::vector<std::string> place_warnings(const CoverageRequest& request, const SceneModel& model,
                                        const Surfaces& surfaces);

/// The share of the open cells that a transmitter has to reach, or there is a warning.
constexpr double least_reach = 0.05;

/// Cells with few crossings, lanes that were inactive; and, for a run of all lanes, transmitters that reach
/// too few open cells. `report.open_reached` says how many each reaches.
std::vector<std::string> result_warnings(const CoverageReport& report);

}  // namespace shardwise::program
