#pragma once
// Polygons to triangles.

#include <cstdint>
#include <span>
#include <vector>

#include "shardwise/scene/mesh.hpp"

namespace shardwise {

/// Polygons with more corners than this are refused by the readers: ear clipping takes cubic time at worst.
inline constexpr std::size_t kMaxPolygonCorners = 1024;

/// Appends size - 2 triangles that cover the polygon and keep its orientation: a fan from corner 0 where
/// every corner turns strictly the same way, ear clipping (G. H. Meisters, "Polygons have ears", 1975)
/// otherwise. A polygon that crosses itself, or with corners that are not finite, still gives size - 2
/// triangles, which may overlap. `places` are the corners' places, `corners` the indices that the triangles
/// get, one each. Returns false where the corners lie further than 1e-4 of the polygon's extent (plus
/// `rounding` of its coordinates) from their common plane.
bool triangulate_polygon(std::span<const Vec3d> places, std::span<const std::int32_t> corners,
                         double rounding, std::vector<Face>& faces);

}  // namespace shardwise
