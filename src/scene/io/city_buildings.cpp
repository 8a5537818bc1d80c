#include "city_buildings.hpp"

#include <algorithm>

namespace shardwise::city {
namespace {

std::int32_t add_vertex(Mesh& mesh, Point2 p, double z) {
  mesh.vertices.push_back(to_float({p.x, p.y, z}));
  return static_cast<std::int32_t>(mesh.vertices.size()) - 1;
}

/// Vertices over the footprint at one height; returns the first index.
std::int32_t add_ring(Mesh& mesh, std::span<const Point2> footprint, double z) {
  const auto first = static_cast<std::int32_t>(mesh.vertices.size());
  for (const Point2 p : footprint) add_vertex(mesh, p, z);
  return first;
}

void add_quad(Mesh& mesh, std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d) {
  mesh.faces.push_back({a, b, c});
  mesh.faces.push_back({a, c, d});
}

/// Walls between two heights; returns the first index of the upper ring.
std::int32_t add_walls(Mesh& mesh, std::span<const Point2> footprint, double base, double top) {
  const auto count = static_cast<std::int32_t>(footprint.size());
  const std::int32_t low = add_ring(mesh, footprint, base), high = add_ring(mesh, footprint, top);
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t next = (i + 1) % count;
    add_quad(mesh, low + i, low + next, high + next, high + i);
  }
  return high;
}

Point2 middle(Point2 a, Point2 b) {
  return {(a.x + b.x) / 2, (a.y + b.y) / 2};
}

double squared_distance(Point2 a, Point2 b) {
  return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
}

}  // namespace

std::vector<Point2> corners_of(const Rect& rect) {
  return {{rect.x0, rect.y0}, {rect.x1, rect.y0}, {rect.x1, rect.y1}, {rect.x0, rect.y1}};
}

std::vector<Point2> l_shape(const Rect& rect, double cut_x, double cut_y, int corner) {
  const auto corners = corners_of(rect);
  const Point2 inner{cut_x, cut_y};
  const auto at = [&](int i) { return corners[static_cast<std::size_t>((corner + i) % 4)]; };
  // Where the sides that meet at the corner cut off are cut: on the way out of it, and on the way into it.
  const bool out_along_x = corner % 2 == 0;
  const Point2 leave = out_along_x ? Point2{cut_x, at(0).y} : Point2{at(0).x, cut_y};
  const Point2 arrive = out_along_x ? Point2{at(0).x, cut_y} : Point2{cut_x, at(0).y};
  return {inner, leave, at(1), at(2), at(3), arrive};
}

std::vector<Point2> rotated_in(const Rect& rect, double half_tangent) {
  const double t = half_tangent, cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
  const double lean = sine < 0 ? -sine : sine;
  const double w = rect.width(), d = rect.depth();
  const double scale = std::min(w / (w * cosine + d * lean), d / (d * cosine + w * lean));
  const Point2 centre{(rect.x0 + rect.x1) / 2, (rect.y0 + rect.y1) / 2};
  auto corners = corners_of(rect);
  for (Point2& p : corners) {
    const double x = (p.x - centre.x) * scale, y = (p.y - centre.y) * scale;
    p = {centre.x + cosine * x - sine * y, centre.y + sine * x + cosine * y};
  }
  return corners;
}

void add_prism(std::span<const Point2> footprint, double base, double top, Mesh& walls, Mesh& roof) {
  std::int32_t rim = add_walls(walls, footprint, base, top);
  if (&roof != &walls) rim = add_ring(roof, footprint, top);
  for (std::int32_t i = 1; i + 1 < static_cast<std::int32_t>(footprint.size()); ++i) {
    roof.faces.push_back({rim, rim + i, rim + i + 1});
  }
}

void add_gabled(std::span<const Point2> footprint, double eave, double ridge, Mesh& walls, Mesh& roof) {
  // The ridge runs along corners 0 -> 1.
  std::vector<Point2> p(footprint.begin(), footprint.end());
  if (squared_distance(p[0], p[1]) < squared_distance(p[1], p[2]))
    std::rotate(p.begin(), p.begin() + 1, p.end());
  const Point2 start = middle(p[0], p[3]), end = middle(p[1], p[2]);
  std::int32_t rim = add_walls(walls, p, 0, eave);
  std::int32_t r0 = add_vertex(walls, start, ridge), r1 = add_vertex(walls, end, ridge);
  walls.faces.push_back({rim + 1, rim + 2, r1});
  walls.faces.push_back({rim + 3, rim, r0});
  if (&roof != &walls) {
    rim = add_ring(roof, p, eave);
    r0 = add_vertex(roof, start, ridge);
    r1 = add_vertex(roof, end, ridge);
  }
  add_quad(roof, rim, rim + 1, r1, r0);
  add_quad(roof, rim + 2, rim + 3, r0, r1);
}

void add_ground(const Rect& rect, Mesh& ground) {
  const std::int32_t first = add_ring(ground, corners_of(rect), 0);
  add_quad(ground, first, first + 1, first + 2, first + 3);
}

}  // namespace shardwise::city
