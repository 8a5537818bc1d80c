#include "triangulate.hpp"

#include <algorithm>

namespace shardwise {
namespace {

struct Point {
  double x, y;
};

/// Twice the signed area of (a, b, c).
double turn(Point a, Point b, Point c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/// Whether p lies in the closed triangle (a, b, c), counter-clockwise.
bool covers(Point a, Point b, Point c, Point p) {
  return turn(a, b, p) >= 0 && turn(b, c, p) >= 0 && turn(c, a, p) >= 0;
}

bool same(Point a, Point b) {
  return a.x == b.x && a.y == b.y;
}

/// Ear clipping in the plane; `points` run counter-clockwise.
void clip_ears(std::span<const Point> points, std::span<const std::int32_t> corners,
               std::vector<Face>& faces) {
  std::vector<std::size_t> ring(points.size());
  for (std::size_t i = 0; i < ring.size(); ++i) ring[i] = i;
  const auto emit = [&](std::size_t a, std::size_t b, std::size_t c) {
    faces.push_back({corners[a], corners[b], corners[c]});
  };
  std::size_t start = 0;
  while (ring.size() > 3) {
    const std::size_t n = ring.size();
    std::size_t ear = n;
    for (std::size_t k = 0; k < n && ear == n; ++k) {
      const std::size_t i = (start + k) % n;
      const Point a = points[ring[(i + n - 1) % n]], b = points[ring[i]], c = points[ring[(i + 1) % n]];
      if (!(turn(a, b, c) > 0)) continue;
      const bool free = std::none_of(ring.begin(), ring.end(), [&](std::size_t other) {
        const Point p = points[other];
        return !same(p, a) && !same(p, b) && !same(p, c) && covers(a, b, c, p);
      });
      if (free) ear = i;
    }
    if (ear == n) ear = start % n;  // it crosses itself: any corner will do
    emit(ring[(ear + n - 1) % n], ring[ear], ring[(ear + 1) % n]);
    ring.erase(ring.begin() + static_cast<std::ptrdiff_t>(ear));
    start = ear;  // the next ear is looked for beyond this one, which avoids long fans
  }
  emit(ring[0], ring[1], ring[2]);
}

}  // namespace

bool triangulate_polygon(std::span<const Vec3d> places, std::span<const std::int32_t> corners,
                         double rounding, std::vector<Face>& faces) {
  const std::size_t n = corners.size();
  const auto corner = [&](std::size_t i) { return places[i]; };
  const auto fan = [&] {
    for (std::size_t i = 1; i + 1 < n; ++i) faces.push_back({corners[0], corners[i], corners[i + 1]});
  };
  if (n == 3) {
    fan();
    return true;
  }

  // Newell's normal, about corner 0 so that far-away polygons lose nothing.
  const Vec3d origin = corner(0);
  Vec3d normal, low = origin, high = origin;
  for (std::size_t i = 0; i < n; ++i) {
    const Vec3d p = corner(i), q = corner((i + 1) % n);
    if (!is_finite(p)) {
      fan();
      return true;
    }
    normal = normal + cross(p - origin, q - origin);
    low = {std::min(low.x, p.x), std::min(low.y, p.y), std::min(low.z, p.z)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y), std::max(high.z, p.z)};
  }
  const Vec3d unit = normalized(normal);
  const double tolerance = 1e-4 * length(high - low) + rounding * std::max(max_abs(low), max_abs(high));
  double nearest = 0, farthest = 0;  // signed distances from the plane through corner 0
  for (std::size_t i = 0; i < n; ++i) {
    const double distance = dot(unit, corner(i) - origin);
    nearest = std::min(nearest, distance);
    farthest = std::max(farthest, distance);
  }
  const bool planar = farthest - nearest <= 2 * tolerance;

  // Drop the normal's largest axis; swap the other two where that would turn the polygon round.
  const double size = max_abs(normal);
  std::vector<Point> points(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Vec3d p = corner(i) - origin;
    if (normal.z == size || normal.z == -size) {
      points[i] = normal.z > 0 ? Point{p.x, p.y} : Point{p.y, p.x};
    } else if (normal.y == size || normal.y == -size) {
      points[i] = normal.y > 0 ? Point{p.z, p.x} : Point{p.x, p.z};
    } else {
      points[i] = normal.x > 0 ? Point{p.y, p.z} : Point{p.z, p.y};
    }
  }
  bool convex = true;
  for (std::size_t i = 0; i < n && convex; ++i) {
    // Every corner turns left and every other corner lies left of the fan's spokes' order: no star polygon
    // passes.
    convex = turn(points[i], points[(i + 1) % n], points[(i + 2) % n]) > 0 &&
             (i < 1 || i + 1 >= n || turn(points[0], points[i], points[i + 1]) > 0);
  }
  if (convex) {
    fan();
  } else {
    clip_ears(points, corners, faces);
  }
  return planar;
}

}  // namespace shardwise
