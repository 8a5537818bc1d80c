#pragma once

#include "coverage_request.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise::program {

/// `coverage --dry-run`: plans the call, says lanes, shares, chunks and bytes, and runs nothing. Returns 0.
int dry_run(const CoverageText& text, const CoverageRequest& request, const DeviceSet& devices,
            const SceneModel& model);

}  // namespace shardwise::program
