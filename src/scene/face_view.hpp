#pragma once
// What a kernel sees of faces beside their corners: which shape they belong to, shading normals, texture
// coordinates. Apart from SceneView, because most operations need none of it: a replica holds it only once an
// operation has asked (Scene::require_face_data()).

#include <cstdint>

#include "shardwise/numeric/vec3.hpp"
#include "shardwise/scene/mesh.hpp"

namespace shardwise {

/// One shape (mesh or instance).
struct ShapeFaces {
  std::int32_t face_offset;  ///< its first global_prim_id
  std::int32_t face_uv;      ///< index of its first row of FaceView::face_uv; -1: the mesh has no uv
  std::int32_t smooth;       ///< 1: shading interpolates vertex normals; 0: it uses the face's
};

/// Plain pointers into one device's replica; F faces, V world vertices, M shapes. Copied by value into
/// launches.
struct FaceView {
  const std::int32_t* shape_of_face = nullptr;  ///< [F]
  const ShapeFaces* shapes = nullptr;           ///< [M]
  const Face* faces = nullptr;                  ///< [F] into vertex_normals; null where no shape is smooth
  const Vec3f* vertex_normals = nullptr;        ///< [V] unit, or zero; null where no shape is smooth
  const Face* face_uv = nullptr;                ///< rows of shapes with uv: indices into uv
  const Vec2f* uv = nullptr;
};

}  // namespace shardwise
