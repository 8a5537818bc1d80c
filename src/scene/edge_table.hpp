#pragma once
// Builds an EdgeTable from a scene's faces and from the positions that decide which vertices are one.

#include <span>
#include <vector>

#include "shardwise/scene/edges.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

/// What of a shape decides its edges.
struct EdgeShape {
  std::span<const Vec3f> positions;        ///< [vertices of the shape] equal ones of a group are welded
  std::span<const std::uint8_t> hittable;  ///< [faces of the shape] faces that take part
  std::int32_t weld_group = 0;             ///< EdgeTable::weld_group
  bool edges_enabled = true;
};

/// `geometry` gives faces and offsets only: neither its positions nor its hittable flags are read. Depends on
/// the arguments alone, not on threads. Throws a usage error where the records do not fit int32.
EdgeTable build_edge_table(const SceneGeometry& geometry, std::span<const EdgeShape> shapes, EdgeWeld weld);

/// Classes whose members no longer lie in one place (-0 equals +0; NaN is nowhere).
std::int64_t count_drifted_classes(const EdgeTable& table, std::span<const Vec3f> vertices);

}  // namespace shardwise
