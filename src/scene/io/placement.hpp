#pragma once
// From a file's axes, units and origin to the scene's: z up, metres, near the origin.

#include <string>
#include <vector>

#include "file_mesh.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {

/// Moves the shapes of a file into `scene`, in order, and builds it. Axes (`native_up` where the options
/// leave it to the format), unit and shift are multiplied into each shape's to_world in double; a shape whose
/// vertices no float holds is brought to the world in double and rounded once. The shift that was chosen is
/// noted, and kept as scene.origin_shift().
SceneModel place_shapes(SceneModel scene, std::vector<FileMesh> shapes, UpAxis native_up,
                        const SceneReadOptions& options, std::vector<std::string>* notes);

}  // namespace shardwise
