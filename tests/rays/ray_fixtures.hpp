#pragma once
// Scenes, rays and the brute-force tracer of the tests of row bodies.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "rays/ray_queries_kernel.hpp"
#include "scene/trace_fixtures.hpp"

namespace shardwise::testing {

/// A mesh and its tree, as a kernel sees it.
struct Traced {
  TestMesh mesh;
  std::vector<std::uint8_t> hittable;
  Bvh8 bvh;
  SceneView view;
  Vec3f low{INFINITY, INFINITY, INFINITY}, high{-INFINITY, -INFINITY, -INFINITY};

  explicit Traced(TestMesh from) : mesh(std::move(from)), hittable(mesh.hittable()) {
    bvh = build_bvh8(mesh.vertices, mesh.faces, hittable);
    view = view_of(bvh);
    for (const Vec3f& v : mesh.vertices)
      for (int a = 0; a < 3; ++a) {
        low.set(a, std::min(low[a], v[a]));
        high.set(a, std::max(high[a], v[a]));
      }
    view.diagonal = mesh.vertices.empty() ? 0 : length(high - low);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  Vec3f middle() const { return 0.5f * (low + high); }
  float size() const { return std::max(max_abs(high - low), 1e-6f); }
  Vec3f normal_of(std::int32_t prim) const {
    const FaceIndices& f = mesh.faces[static_cast<std::size_t>(prim)];
    const Vec3d a = to_double(mesh.corner(f, 0));
    return to_float(normalized(cross(to_double(mesh.corner(f, 1)) - a, to_double(mesh.corner(f, 2)) - a)));
  }
};

/// Random, axis-aligned and shared-edge scenes, then the same scaled and shifted.
inline std::vector<TestMesh> oracle_meshes() {
  std::vector<TestMesh> all{cloud(300, 0.4f, 1), grid(12), boxes(24, 3), ball(2), slivers(150, 4)};
  const std::vector<TestMesh> plain = all;
  all.push_back(duplicated(cloud(120, 0.6f, 2)));
  all.push_back(duplicated(grid(8)));
  for (const TestMesh& mesh : plain) {
    all.push_back(moved(mesh, 1e-3f, {0, 0, 0}));
    all.push_back(moved(mesh, 1, {1000, -1000, 1000}));
    all.push_back(moved(mesh, 1e3f, {0, 0, 0}));
  }
  return all;
}

/// All queries by trying every triangle with the shared formula: what BvhQueries has to equal, bit for bit.
struct BruteQueries {
  SceneView scene;

  template <class Counts>
  Hit least(Vec3f o, Vec3f d, const Counts& counts) const {
    Hit best = no_hit();
    RayData ray;
    if (!ray.prepare(o, d, scene.max_coordinate)) return best;
    for (std::uint32_t record = 0; record < scene.triangle_count; ++record) {
      const BvhTriangle& triangle = scene.triangles[record];
      TriangleHit hit;
      if (!intersect_triangle(ray, triangle.v0, triangle.v1, triangle.v2, -3.4e38f, 3.4e38f, hit)) continue;
      if (!counts(hit.t, triangle.prim)) continue;
      if (hit.t < best.t || (hit.t == best.t && triangle.prim < best.prim))
        best = {hit.t, hit.u, hit.v, triangle.prim, record};
    }
    return best;
  }
  Hit closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
    if (!(t_max > 0)) return no_hit();
    return least(o, d, [&](float t, std::uint32_t) { return t >= t_min && t <= t_max; });
  }
  Hit first_between(Vec3f o, Vec3f d, float low, float high, const IgnoreList& ignore) const {
    return least(o, d, [&](float t, std::uint32_t prim) { return t > low && t < high && !ignore.has(prim); });
  }
  bool any_between(Vec3f o, Vec3f d, float low, float high, const IgnoreList& ignore) const {
    return first_between(o, d, low, high, ignore).valid();
  }
  Hit next_after(Vec3f o, Vec3f d, const Hit& previous, float high) const {
    return least(o, d, [&](float t, std::uint32_t prim) {
      return t < high && (t > previous.t || (t == previous.t && prim > previous.prim));
    });
  }
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
inline bool is_plus_zero(float v) {
  return std::bit_cast<std::uint32_t>(v) == 0;
}
inline bool is_plus_zero(const Vec3f& v) {
  return is_plus_zero(v.x) && is_plus_zero(v.y) && is_plus_zero(v.z);
}

template <class Body>
void run_rows(const Body& body, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row) body(static_cast<std::int64_t>(row));
}

/// More rounds where the long variant was asked for.
inline int rounds(int usual, int in_long_runs) {
  const char* value = std::getenv("SHARDWISE_LONG");
  return value && *value && std::string(value) != "0" ? in_long_runs : usual;
}

/// Values that a row of input must not hold.
inline const std::vector<float>& bad_numbers() {
  static const std::vector<float> values{NAN, INFINITY, -INFINITY};
  return values;
}

}  // namespace shardwise::testing
