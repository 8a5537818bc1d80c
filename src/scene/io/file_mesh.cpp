#include "file_mesh.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "triangulate.hpp"

namespace shardwise {

void set_positions(FileMesh& shape, std::vector<Vec3d> positions) {
  bool loses = false;
  shape.mesh.vertices.clear();
  shape.mesh.vertices.reserve(positions.size());
  for (const Vec3d& p : positions) {
    const Vec3f rounded = to_float(p);
    loses = loses || (is_finite(rounded) && max_abs(p) > kFarFromOrigin && !(to_double(rounded) == p));
    shape.mesh.vertices.push_back(rounded);
  }
  shape.exact.clear();
  if (loses) shape.exact = std::move(positions);
}

void PolygonCount::note(const std::string& file, std::vector<std::string>* notes) const {
  if (notes && split > 0) {
    notes->push_back(
        fmt::format("{}: {} of {} faces have more than 3 corners and were cut into triangles, {} in all",
                    file, split, polygons, triangles));
  }
  if (notes && bent > 0) {
    notes->push_back(
        fmt::format("{}: {} polygon{} not planar, the first is face {}; its triangles are a guess", file,
                    bent, bent == 1 ? " is" : "s are", first_bent));
  }
}

void add_polygons(FileMesh& shape, const Polygons& polygons, PolygonCount& count) {
  std::vector<Face>& faces = shape.mesh.faces;
  const std::size_t before = faces.size();
  faces.reserve(before + polygons.sizes.size());
  std::vector<Vec3d> corners;
  std::size_t begin = 0;
  for (const std::int32_t signed_size : polygons.sizes) {
    const auto size = static_cast<std::size_t>(signed_size);
    const auto indices = std::span(polygons.corners).subspan(begin, size);
    begin += size;
    if (size == 3) {
      faces.push_back({indices[0], indices[1], indices[2]});
    } else {
      ++count.split;
      corners.clear();
      for (const std::int32_t index : indices) {
        const auto i = static_cast<std::size_t>(index);
        corners.push_back(shape.exact.empty() ? to_double(shape.mesh.vertices[i]) : shape.exact[i]);
      }
      const double rounding = shape.exact.empty() ? 1e-6 : 1e-14;
      if (!triangulate_polygon(corners, indices, rounding, faces) && count.bent++ == 0) {
        count.first_bent = count.polygons;
      }
    }
    ++count.polygons;
  }
  count.triangles += faces.size() - before;
}

}  // namespace shardwise
