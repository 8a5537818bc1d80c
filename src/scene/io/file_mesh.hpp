#pragma once
// What the readers of mesh files hand on: a mesh in the file's own axes, units and origin.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwise/scene/mesh.hpp"

namespace shardwise {

/// From here on, in the file's units, a float's steps are too coarse to keep (1 mm at 10 km).
inline constexpr double kFarFromOrigin = 10e3;

/// One shape of a file. mesh.to_world takes its vertices to the file's world.
struct FileMesh {
  Mesh mesh;                ///< vertices rounded to float; `material` is not set yet
  std::vector<Vec3d> exact; /**< [V] the vertices before rounding, where some beyond kFarFromOrigin would lose
                               by it; else empty */
  std::string material;     ///< the name the file gives; empty: none
  bool stored_as_float = false;  ///< the file itself holds no more than float
};

/// Sets mesh.vertices, and `exact` where rounding to float would lose something far from the origin.
void set_positions(FileMesh& shape, std::vector<Vec3d> positions);

/// Polygons of a file, corners one after the other.
struct Polygons {
  std::vector<std::int32_t> corners;  ///< indices into the shape's vertices, in range
  std::vector<std::int32_t> sizes;    ///< [polygons] corners of each, 3 or more
};

/// What cutting polygons into triangles met; note() puts it into words once a file is read.
struct PolygonCount {
  std::size_t polygons = 0, split = 0, bent = 0, first_bent = 0, triangles = 0;

  /// "PLY file 'x.ply': 3 of 7 faces have more than 3 corners ...", and the polygons that are not planar.
  void note(const std::string& file, std::vector<std::string>* notes) const;
};

/// Appends the polygons' triangles to mesh.faces, in order; judged in double where the shape is exact.
void add_polygons(FileMesh& shape, const Polygons& polygons, PolygonCount& count);

}  // namespace shardwise
