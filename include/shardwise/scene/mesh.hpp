#pragma once
// One triangle mesh as it entered the scene: object space, never welded, never re-ordered.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/numeric/vec3.hpp"
#include "shardwise/scene/transform.hpp"

namespace shardwise {

/// Three vertex indices, counter-clockwise seen from outside: cross(p1 - p0, p2 - p0) points outward.
using Face = std::array<std::int32_t, 3>;

/// Texture coordinates.
struct Vec2f {
  float x = 0, y = 0;
  friend bool operator==(const Vec2f&, const Vec2f&) = default;
};

/// A triangle mesh. `uv` and `face_uv` are given both or not at all; `vertex_normals` is empty or one a
/// vertex.
struct Mesh {
  std::string name;
  std::vector<Vec3f> vertices;        ///< [V] object space, metres
  std::vector<Face> faces;            ///< [F] indices into vertices
  std::vector<Vec2f> uv;              ///< [Vt] optional
  std::vector<Face> face_uv;          ///< [F] indices into uv, optional
  std::vector<Vec3f> vertex_normals;  ///< [V] optional, object space
  bool use_face_normals = false;      ///< shading uses the geometric normal although vertex normals are there
  Transform to_world;
  std::int32_t material = -1;  ///< index into the scene's material table; -1: none
  bool edges_enabled = true;   ///< false: its faces have no edges among themselves, yet join other meshes'
  bool dynamic = false;        ///< vertices may be updated after build()
};

/// Throws a usage error that names `op`, the mesh, the place and the value where the arrays of a mesh do not
/// fit together: an index out of range, uv without face_uv, a wrong number of normals, a transform that is
/// not affine. Vertices that are not finite and degenerate faces pass: they are defects, which the scene
/// lists (SceneModel).
void validate_mesh(const Mesh& mesh, const std::string& op);

/// Throws a usage error unless every entry is finite and the last row is (0, 0, 0, 1).
void validate_transform(const Transform& to_world, const std::string& op);

}  // namespace shardwise
