#pragma once
// The host arrays behind FaceView.

#include <vector>

#include "scene/face_view.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

struct FaceArrays {
  std::vector<std::int32_t> shape_of_face;
  std::vector<ShapeFaces> shapes;
  std::vector<Face> faces;            ///< empty where no shape is smooth
  std::vector<Vec3f> vertex_normals;  ///< empty where no shape is smooth
  std::vector<Face> face_uv;          ///< meshes with uv, one after the other; instances share their owner's
  std::vector<Vec2f> uv;
};

/// Of a built scene without pending updates (a state error otherwise).
///
/// A shape is smooth unless its mesh says use_face_normals. Given vertex normals n go to the world as
/// cof(M) n, M the linear part of to_world and cof its matrix of cofactors, which is how normals by winding
/// transform (a mirror image turns both); without given ones a vertex has the area-weighted mean of the faces
/// around it, sum of cross(e1, e2), over the faces that can be hit. Computed in double, normalised, rounded
/// once; zero where there is no direction (no face, normals that cancel, a given normal that is not finite).
FaceArrays make_face_arrays(const SceneModel& model);

}  // namespace shardwise
