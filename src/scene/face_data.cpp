#include "scene/face_data.hpp"

#include <fmt/format.h>

#include <limits>
#include <map>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

Vec3f unit_or_zero(Vec3d v) {
  const double size = max_abs(v);
  if (!is_finite(v) || !(size > 0)) return {};
  const Vec3d scaled{v.x / size, v.y / size, v.z / size};  // no square under- or overflows
  return to_float(normalized(scaled));
}

/// cof(M) n, row by row: row i of the cofactor matrix is the cross product of the two other rows of M.
Vec3d transform_normal(const Transform& m, Vec3d n) {
  const Vec3d r0{m(0, 0), m(0, 1), m(0, 2)}, r1{m(1, 0), m(1, 1), m(1, 2)}, r2{m(2, 0), m(2, 1), m(2, 2)};
  return {dot(cross(r1, r2), n), dot(cross(r2, r0), n), dot(cross(r0, r1), n)};
}

void given_normals(const SceneModel& model, std::int32_t id, Vec3f* world) {
  const std::vector<Vec3f>& normals = model.mesh(id).vertex_normals;
  const Transform& to_world = model.to_world(id);
  for (std::size_t i = 0; i < normals.size(); ++i)
    world[i] = unit_or_zero(transform_normal(to_world, to_double(normals[i])));
}

void mean_normals(const SceneGeometry& geometry, std::int32_t id, Vec3f* world) {
  const std::int32_t base = geometry.vertex_offset[at(id)];
  std::vector<Vec3d> sums(at(geometry.vertex_offset[at(id) + 1] - base));
  for (std::int32_t f = geometry.face_offset[at(id)]; f < geometry.face_offset[at(id) + 1]; ++f) {
    if (!geometry.hittable[at(f)]) continue;
    const Face& face = geometry.faces[at(f)];
    const Vec3d p0 = to_double(geometry.vertices[at(face[0])]);
    const Vec3d normal =
        cross(to_double(geometry.vertices[at(face[1])]) - p0, to_double(geometry.vertices[at(face[2])]) - p0);
    for (const std::int32_t vertex : face) {
      Vec3d& sum = sums[at(vertex - base)];
      sum = sum + normal;
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) world[i] = unit_or_zero(sums[i]);
}

}  // namespace

FaceArrays make_face_arrays(const SceneModel& model) {
  const SceneGeometry& geometry = model.geometry();
  FaceArrays result;
  result.shape_of_face = geometry.shape_id;
  std::map<std::int32_t, std::int32_t> face_uv_of_owner;
  bool any_smooth = false;
  for (std::int32_t id = 0; id < model.num_meshes(); ++id) {
    const Mesh& mesh = model.mesh(id);
    ShapeFaces shape{geometry.face_offset[at(id)], -1, mesh.use_face_normals ? 0 : 1};
    any_smooth = any_smooth || shape.smooth == 1;
    if (!mesh.face_uv.empty()) {
      const auto [found, added] =
          face_uv_of_owner.emplace(model.owner_of(id), static_cast<std::int32_t>(result.face_uv.size()));
      shape.face_uv = found->second;
      if (added) {
        if (result.uv.size() + mesh.uv.size() > std::numeric_limits<std::int32_t>::max())
          throw_usage(fmt::format("scene: the uv rows of all meshes must fit int32 (got {} up to mesh '{}')",
                                  result.uv.size() + mesh.uv.size(), mesh.name));
        const auto base = static_cast<std::int32_t>(result.uv.size());
        for (const Face& f : mesh.face_uv) result.face_uv.push_back({base + f[0], base + f[1], base + f[2]});
        result.uv.insert(result.uv.end(), mesh.uv.begin(), mesh.uv.end());
      }
    }
    result.shapes.push_back(shape);
  }
  if (!any_smooth) return result;
  result.faces = geometry.faces;
  result.vertex_normals.resize(geometry.vertices.size());
  for (std::int32_t id = 0; id < model.num_meshes(); ++id) {
    if (result.shapes[at(id)].smooth == 0) continue;
    Vec3f* world = result.vertex_normals.data() + geometry.vertex_offset[at(id)];
    if (model.mesh(id).vertex_normals.empty())
      mean_normals(geometry, id, world);
    else
      given_normals(model, id, world);
  }
  return result;
}

}  // namespace shardwise
