#pragma once
// From a hit to the surface there: point, normals, image, texture coordinates.

#include "scene/face_view.hpp"
#include "scene/scene_view.hpp"
#include "shardwise/numeric/bits.hpp"

namespace shardwise {

/// The point with weights (1 - u - v, u, v), not o + t d: it does not leave the triangle's plane as t grows.
SW_HD inline Vec3f surface_point(const BvhTriangle& triangle, float u, float v) {
  return triangle.v0 + u * (triangle.v1 - triangle.v0) + v * (triangle.v2 - triangle.v0);
}

/// Unit normal by winding, in double; zero for a triangle without area.
SW_HD inline Vec3d exact_normal(const BvhTriangle& triangle) {
  const Vec3d corner = to_double(triangle.v0);
  return normalized(cross(to_double(triangle.v1) - corner, to_double(triangle.v2) - corner));
}

/// `point` mirrored in the triangle's plane through its corner 0, so that images are the same bits for all
/// rays of one origin and one sequence of faces. `normal` is exact_normal(), of either sign.
SW_HD inline Vec3d mirror_in(const BvhTriangle& triangle, const Vec3d& normal, const Vec3d& point) {
  return point - (2.0 * dot(point - to_double(triangle.v0), normal)) * normal;
}

/// The interpolated vertex normal; `face_normal` where the shape is flat, or the vertex normals cancel.
SW_HD inline Vec3f shading_normal(const FaceView& faces, std::uint32_t prim, float u, float v,
                                  const Vec3f& face_normal) {
  if (faces.shapes[faces.shape_of_face[prim]].smooth == 0) return face_normal;
  const Face& face = faces.faces[prim];
  const Vec3f sum = (1.0f - u - v) * faces.vertex_normals[face[0]] + u * faces.vertex_normals[face[1]] +
                    v * faces.vertex_normals[face[2]];
  // Relative: vertex normals are unit. Below, what is left of them is rounding.
  return dot(sum, sum) > 1e-10f ? normalized(sum) : face_normal;
}

/// The mesh's texture coordinates, or the weights (u, v) where it has none.
SW_HD inline Vec2f texture_coordinates(const FaceView& faces, std::uint32_t prim, float u, float v) {
  const ShapeFaces& shape = faces.shapes[faces.shape_of_face[prim]];
  if (shape.face_uv < 0) return {u, v};
  const Face& face = faces.face_uv[shape.face_uv + (static_cast<std::int32_t>(prim) - shape.face_offset)];
  const Vec2f a = faces.uv[face[0]], b = faces.uv[face[1]], c = faces.uv[face[2]];
  const float w = 1.0f - u - v;
  return {w * a.x + u * b.x + v * c.x, w * a.y + u * b.y + v * c.y};
}

}  // namespace shardwise
