#pragma once

#include <string>

#include "coverage_report.hpp"
#include "picture.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise::program {

/// The picture of a finished run. The report must outlive it.
Picture coverage_picture(const CoverageReport& report, const SceneModel& model,
                         const std::string& scene_path);

}  // namespace shardwise::program
