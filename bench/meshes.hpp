#pragma once
// Meshes for benchmarks of calls on rows.

#include "shardwise/scene/scene_model.hpp"

namespace shardwise::bench {

/// `count` small triangles in a cube of side 2, corners up to 0.005 from each other on each axis.
SceneModel cloud(int count);

/// A plane of 16 x 12 vertices: almost nothing to trace, so that moving rows is what counts.
SceneModel light_plane();

}  // namespace shardwise::bench
