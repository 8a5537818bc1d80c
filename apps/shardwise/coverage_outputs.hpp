#pragma once

#include <vector>

#include "coverage_report.hpp"
#include "outline.hpp"
#include "output_file.hpp"

namespace shardwise::program {

/// Stages the maps, the picture and the report of a finished run; the trace and the partial are left to the
/// caller. With a map of each transmitter the arrays are [transmitters, rows, columns].
void stage_maps(OutputSet& outputs, const CoverageFiles& files, const CoverageReport& report,
                std::vector<Segment> outlines, const std::string& title);

}  // namespace shardwise::program
