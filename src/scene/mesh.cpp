#include "shardwise/scene/mesh.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

void check_indices(const Mesh& mesh, const std::string& op, const char* argument,
                   const std::vector<Face>& faces, std::size_t limit, const char* what) {
  for (std::size_t face = 0; face < faces.size(); ++face) {
    for (std::size_t corner = 0; corner < 3; ++corner) {
      const std::int32_t index = faces[face][corner];
      if (index < 0 || static_cast<std::size_t>(index) >= limit) {
        throw_usage(fmt::format(
            "{}: {} index out of range [0, {}) (got {}) in mesh '{}', face {}, corner {}; indices "
            "count the mesh's own {} from 0",
            op, argument, limit, index, mesh.name, face, corner, what));
      }
    }
  }
}

}  // namespace

void validate_transform(const Transform& to_world, const std::string& op) {
  for (std::size_t i = 0; i < to_world.m.size(); ++i) {
    if (!is_finite(to_world.m[i])) {
      throw_usage(fmt::format("{}: to_world (4, 4) must be finite (got {} in row {}, column {})", op,
                              to_world.m[i], i / 4, i % 4));
    }
  }
  const auto& m = to_world.m;
  if (m[12] != 0 || m[13] != 0 || m[14] != 0 || m[15] != 1) {
    throw_usage(fmt::format(
        "{}: to_world (4, 4) must have the last row (0, 0, 0, 1) (got ({}, {}, {}, {})); the convention is "
        "row-major with column vectors, so a translation stands in the last column",
        op, m[12], m[13], m[14], m[15]));
  }
}

void validate_mesh(const Mesh& mesh, const std::string& op) {
  constexpr std::size_t limit = 0x7fffffff;
  if (mesh.vertices.size() > limit || mesh.faces.size() > limit) {
    throw_usage(fmt::format("{}: mesh '{}' must fit int32 indices (got {} vertices, {} faces)", op, mesh.name,
                            mesh.vertices.size(), mesh.faces.size()));
  }
  check_indices(mesh, op, "faces", mesh.faces, mesh.vertices.size(), "vertices");
  if (mesh.uv.empty() != mesh.face_uv.empty()) {
    throw_usage(
        fmt::format("{}: uv and face_uv must be given both or neither (got {} and {} rows) in mesh '{}'", op,
                    mesh.uv.size(), mesh.face_uv.size(), mesh.name));
  }
  if (!mesh.face_uv.empty() && mesh.face_uv.size() != mesh.faces.size()) {
    throw_usage(fmt::format("{}: face_uv must have one row a face, {} (got {}) in mesh '{}'", op,
                            mesh.faces.size(), mesh.face_uv.size(), mesh.name));
  }
  check_indices(mesh, op, "face_uv", mesh.face_uv, mesh.uv.size(), "uv rows");
  if (!mesh.vertex_normals.empty() && mesh.vertex_normals.size() != mesh.vertices.size()) {
    throw_usage(fmt::format("{}: vertex_normals must have one row a vertex, {} (got {}) in mesh '{}'", op,
                            mesh.vertices.size(), mesh.vertex_normals.size(), mesh.name));
  }
  validate_transform(mesh.to_world, op);
}

}  // namespace shardwise
