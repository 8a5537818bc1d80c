#include "outline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace shardwise::program {
namespace {

struct Extent {
  double low[3], high[3];
  Extent() {
    std::fill(low, low + 3, std::numeric_limits<double>::infinity());
    std::fill(high, high + 3, -std::numeric_limits<double>::infinity());
  }
  void add(const Vec3f& p) {
    for (int c = 0; c < 3; ++c) {
      low[c] = std::min(low[c], static_cast<double>(p[c]));
      high[c] = std::max(high[c], static_cast<double>(p[c]));
    }
  }
  double size(int c) const { return high[c] - low[c]; }
};

bool finite(const std::array<Vec3f, 3>& t) {
  return is_finite(t[0]) && is_finite(t[1]) && is_finite(t[2]);
}

/// A position by its value: -0 is +0.
using Key = std::tuple<float, float, float>;
Key key_of(const Vec3f& p) {
  return {p.x + 0.0f, p.y + 0.0f, p.z + 0.0f};
}

struct EdgeFaces {
  int visible = 0;   ///< faces that show an area along the axis
  int standing = 0;  ///< faces on edge
};

}  // namespace

std::vector<Segment> outlines(const std::vector<TriangleSoup>& shapes, int axis) {
  const int first = axis == 0 ? 1 : 0, second = axis == 2 ? 1 : 2;
  Extent scene;
  for (const TriangleSoup& shape : shapes) {
    for (const auto& triangle : shape) {
      if (!finite(triangle)) continue;
      for (const Vec3f& corner : triangle) scene.add(corner);
    }
  }
  const double footprint = scene.size(first) * scene.size(second);

  std::vector<Segment> segments;
  std::map<std::pair<Key, Key>, EdgeFaces> edges;
  for (const TriangleSoup& shape : shapes) {
    Extent extent;
    double shown = 0;
    edges.clear();
    for (const auto& triangle : shape) {
      if (!finite(triangle)) continue;
      for (const Vec3f& corner : triangle) extent.add(corner);
      const Vec3d a = to_double(triangle[0]), b = to_double(triangle[1]), c = to_double(triangle[2]);
      const Vec3d normal = cross(b - a, c - a);
      const double size = length(normal);
      if (!(size > 0)) continue;
      shown += std::abs(normal[axis]) / 2;
      // Within 6 degrees of the line of sight a face counts as a wall.
      const bool visible = std::abs(normal[axis]) > 0.1 * size;
      for (int i = 0; i < 3; ++i) {
        Key p = key_of(triangle[i]), q = key_of(triangle[(i + 1) % 3]);
        if (q < p) std::swap(p, q);
        EdgeFaces& faces = edges[{p, q}];
        (visible ? faces.visible : faces.standing) += 1;
      }
    }
    if (extent.size(axis) < 1 && shown > 0.2 * footprint) continue;  // ground
    for (const auto& [ends, faces] : edges) {
      if (faces.visible + faces.standing > 1 && (faces.visible == 0 || faces.standing == 0)) continue;
      const auto& [px, py, pz] = ends.first;
      const auto& [qx, qy, qz] = ends.second;
      const float p[3] = {px, py, pz}, q[3] = {qx, qy, qz};
      if (p[first] == q[first] && p[second] == q[second]) continue;
      segments.push_back({p[first], p[second], q[first], q[second]});
    }
  }
  return segments;
}

}  // namespace shardwise::program
