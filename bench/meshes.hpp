#pragma once
// Scenes for benchmarks.

#include "bench/runner.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise::bench {

/// `count` small triangles in a cube of side 2, corners up to 0.005 from each other on each axis.
SceneModel cloud(int count);

/// A plane of 16 x 12 vertices: almost nothing to trace, so that moving rows is what counts.
SceneModel light_plane();

/// settings.scene, or the generated city.
SceneModel scene_asked_for(const Settings& settings);

}  // namespace shardwise::bench
