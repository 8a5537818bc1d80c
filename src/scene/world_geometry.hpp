#pragma once
// The arithmetic behind SceneModel::build() and sync(): object to world, normals, defects, bounds.

#include <span>
#include <vector>

#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

/// to_world * vertices in double, each rounded once to float; bit for bit the input under the identity.
void transform_vertices(const Transform& to_world, std::span<const Vec3f> vertices, std::span<Vec3f> world);

/// Normals, hittable flags and defects of one shape, from its world vertices. `faces` are the mesh's own
/// (indices from 0). Defects are appended: vertices, then faces, ascending.
void classify_faces(std::int32_t shape_id, std::span<const Vec3f> world, std::span<const Face> faces,
                    std::span<Vec3f> face_normal, std::span<std::uint8_t> hittable,
                    std::vector<Defect>& defects);

/// Bounds and max_coordinate over the vertices of hittable faces; leaves `diagonal`.
void measure(SceneGeometry& geometry);

/// Length of the bounds' diagonal, computed in double, rounded once; 0 for empty bounds.
float diagonal_of(const Bounds& bounds);

}  // namespace shardwise
