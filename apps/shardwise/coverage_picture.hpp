#pragma once

#include <string>
#include <vector>

#include "coverage_report.hpp"
#include "picture.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise::program {

/// Outlines of a scene's buildings, seen along an axis.
std::vector<Segment> scene_outlines(const SceneModel& model, int axis);

/// The name that titles use: a file's name without folder and ending.
std::string scene_title(const std::string& scene_path);

/// The picture of a finished run. The report must outlive it.
Picture coverage_picture(const CoverageReport& report, std::vector<Segment> outlines,
                         const std::string& title);

}  // namespace shardwise::program
