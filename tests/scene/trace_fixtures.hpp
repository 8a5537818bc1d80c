#pragma once
// Meshes, rays and the brute-force oracle of the tracer tests.

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "scene/bvh8_builder.hpp"
#include "scene/bvh8_kernel.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise::testing {

struct TestMesh {
  std::string name;
  std::vector<Vec3f> vertices;
  std::vector<FaceIndices> faces;

  /// 1 for faces with a finite, non-zero area.
  std::vector<std::uint8_t> hittable() const {
    std::vector<std::uint8_t> mask;
    for (const FaceIndices& f : faces) {
      const Vec3d a = to_double(corner(f, 0)), b = to_double(corner(f, 1)), c = to_double(corner(f, 2));
      const Vec3d n = cross(b - a, c - a);
      mask.push_back(is_finite(n) && max_abs(n) > 0);
    }
    return mask;
  }
  Vec3f corner(const FaceIndices& f, int k) const {
    return vertices[static_cast<std::size_t>(f[static_cast<std::size_t>(k)])];
  }
  void add(Vec3f a, Vec3f b, Vec3f c) {
    const auto n = static_cast<std::int32_t>(vertices.size());
    vertices.insert(vertices.end(), {a, b, c});
    faces.push_back({n, n + 1, n + 2});
  }
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  float uniform(float low = 0, float high = 1) {
    return low + (high - low) * static_cast<float>(engine_() >> 40) * 0x1p-24f;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  Vec3f in_box(float low, float high) { return {uniform(low, high), uniform(low, high), uniform(low, high)}; }
  Vec3f direction() {
    for (;;) {
      const Vec3f v = in_box(-1, 1);
      const float n = dot(v, v);
      if (n > 0.01f && n < 1) return normalized(v);
    }
  }

 private:
  std::mt19937_64 engine_;
};

inline TestMesh cloud(int count, float size, std::uint64_t seed) {
  Random random(seed);
  TestMesh mesh{"cloud", {}, {}};
  for (int i = 0; i < count; ++i) {
    const Vec3f p = random.in_box(-1, 1);
    mesh.add(p, p + size * random.in_box(-1, 1), p + size * random.in_box(-1, 1));
  }
  return mesh;
}

/// Flat squares of two triangles at z = 0, vertices shared: coplanar neighbours, axis-aligned edges.
inline TestMesh grid(int n) {
  TestMesh mesh{"grid", {}, {}};
  for (int j = 0; j <= n; ++j)
    for (int i = 0; i <= n; ++i)
      mesh.vertices.push_back({2.0f * static_cast<float>(i) / static_cast<float>(n) - 1,
                               2.0f * static_cast<float>(j) / static_cast<float>(n) - 1, 0});
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) {
      const int a = j * (n + 1) + i, b = a + 1, c = a + n + 1, d = c + 1;
      mesh.faces.push_back({a, b, d});
      mesh.faces.push_back({a, d, c});
    }
  return mesh;
}

inline void add_box(TestMesh& mesh, Vec3f low, Vec3f high) {
  const auto n = static_cast<std::int32_t>(mesh.vertices.size());
  for (int k = 0; k < 8; ++k)
    mesh.vertices.push_back({k & 1 ? high.x : low.x, k & 2 ? high.y : low.y, k & 4 ? high.z : low.z});
  static constexpr int quads[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4},
                                      {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
  for (const auto& q : quads) {
    mesh.faces.push_back({n + q[0], n + q[1], n + q[2]});
    mesh.faces.push_back({n + q[0], n + q[2], n + q[3]});
  }
}

inline TestMesh boxes(int count, std::uint64_t seed) {
  Random random(seed);
  TestMesh mesh{"boxes", {}, {}};
  for (int i = 0; i < count; ++i) {
    const Vec3f p = {random.uniform(-1, 1), random.uniform(-1, 1), -0.5f};
    add_box(mesh, p,
            p + Vec3f{random.uniform(0.02f, 0.1f), random.uniform(0.02f, 0.1f), random.uniform(0.05f, 0.4f)});
  }
  return mesh;
}

/// Needles: two corners a hair apart.
inline TestMesh slivers(int count, std::uint64_t seed) {
  Random random(seed);
  TestMesh mesh{"slivers", {}, {}};
  for (int i = 0; i < count; ++i) {
    const Vec3f p = random.in_box(-1, 1);
    const float hair = i % 2 ? 1e-7f : 1e-4f;
    mesh.add(p, p + hair * random.in_box(-1, 1), p + random.in_box(-1, 1));
  }
  return mesh;
}

/// Every triangle of `mesh` twice or more, at other ids: equal t, the lower id must win.
inline TestMesh duplicated(TestMesh mesh) {
  const std::vector<FaceIndices> faces = mesh.faces;
  for (const FaceIndices& f : faces)
    mesh.faces.insert(mesh.faces.begin() + static_cast<long>(mesh.faces.size() / 3), {f[1], f[2], f[0]});
  mesh.faces.insert(mesh.faces.end(), faces.begin(), faces.end());
  mesh.name += " duplicated";
  return mesh;
}

inline TestMesh moved(TestMesh mesh, float scale, Vec3f offset) {
  for (Vec3f& v : mesh.vertices) v = scale * v + offset;
  mesh.name += " x " + std::to_string(scale) + " + " + std::to_string(offset.x);
  return mesh;
}

struct TestRay {
  Vec3f o, d;
};

/// Random, axis-aligned, aimed at vertices, at edges, in planes of faces, along edges.
inline std::vector<TestRay> nasty_rays(const TestMesh& mesh, int count, std::uint64_t seed) {
  Random random(seed);
  Vec3f low{INFINITY, INFINITY, INFINITY}, high = -low;
  for (const Vec3f& v : mesh.vertices)
    for (int a = 0; a < 3; ++a) {
      low.set(a, std::min(low[a], v[a]));
      high.set(a, std::max(high[a], v[a]));
    }
  const float size = std::max(max_abs(high - low), 1e-6f);
  const Vec3f middle = 0.5f * (low + high);
  std::vector<TestRay> rays;
  for (int i = 0; i < count; ++i) {
    const Vec3f o = middle + size * random.in_box(-1, 1);
    const FaceIndices& f = mesh.faces[random.below(mesh.faces.size())];
    const Vec3f a = mesh.corner(f, 0), b = mesh.corner(f, 1), c = mesh.corner(f, 2);
    const float s = random.uniform(), t = random.uniform();
    const Vec3f on_edge = a + s * (b - a), inside = on_edge + t * (c - on_edge);
    Vec3f axis{};
    axis.set(i / 8 % 3, i / 24 % 2 ? 1.0f : -1.0f);
    switch (i % 8) {
      case 0:
        rays.push_back({o, random.direction()});
        break;
      case 1:
        rays.push_back({inside - size * axis, axis});
        break;
      case 2:
        rays.push_back({a - size * axis, axis});
        break;
      case 3:
        rays.push_back({o, a - o});
        break;
      case 4:
        rays.push_back({o, on_edge - o});
        break;
      case 5:
        rays.push_back({o, inside - o});
        break;
      case 6:
        rays.push_back({a - 0.5f * (b - a), b - a});
        break;  // along an edge
      default:
        rays.push_back({inside - size * normalized(b - c), normalized(b - c)});  // in the plane
    }
  }
  return rays;
}

/// The definition: least (t, prim) over all hittable faces.
inline Hit brute_force(const TestMesh& mesh, const std::vector<std::uint8_t>& hittable, float max_coordinate,
                       const TestRay& r, float t_min, float t_max) {
  Hit best{INFINITY, 0, 0, ~0u, ~0u};
  RayData ray;
  if (!(t_max > 0) || !ray.prepare(r.o, r.d, max_coordinate)) return best;
  t_max = std::min(t_max, 3.40282347e38f);
  for (std::uint32_t f = 0; f < mesh.faces.size(); ++f) {
    if (!hittable[f]) continue;
    TriangleHit hit;
    const FaceIndices& face = mesh.faces[f];
    if (intersect_triangle(ray, mesh.corner(face, 0), mesh.corner(face, 1), mesh.corner(face, 2), t_min,
                           t_max, hit) &&
        hit.t < best.t)
      best = {hit.t, hit.u, hit.v, f, 0};
  }
  return best;
}

inline bool same_hit(const Hit& a, const Hit& b) {
  return std::bit_cast<std::uint32_t>(a.t) == std::bit_cast<std::uint32_t>(b.t) && a.prim == b.prim &&
         std::bit_cast<std::uint32_t>(a.u) == std::bit_cast<std::uint32_t>(b.u) &&
         std::bit_cast<std::uint32_t>(a.v) == std::bit_cast<std::uint32_t>(b.v);
}

/// A closed ball of 20 x 4^levels triangles, corners shared by index.
inline TestMesh ball(int levels) {
  TestMesh mesh{"ball", {}, {}};
  const float g = 1.618034f;
  for (const float s : {-1.0f, 1.0f})
    for (const float r : {-g, g}) {
      mesh.vertices.push_back({s, r, 0});
      mesh.vertices.push_back({0, s, r});
      mesh.vertices.push_back({r, 0, s});
    }
  for (Vec3f& v : mesh.vertices) v = normalized(v);
  // Faces of the icosahedron: triples of vertices one edge length apart.
  const auto near = [&](int i, int j) {
    return length(mesh.vertices[static_cast<std::size_t>(i)] - mesh.vertices[static_cast<std::size_t>(j)]) <
           1.2f;
  };
  for (int i = 0; i < 12; ++i)
    for (int j = i + 1; j < 12; ++j)
      for (int k = j + 1; k < 12; ++k)
        if (near(i, j) && near(j, k) && near(i, k)) mesh.faces.push_back({i, j, k});
  for (int level = 0; level < levels; ++level) {
    std::vector<FaceIndices> finer;
    std::vector<std::vector<std::pair<int, int>>> mid(mesh.vertices.size());
    const auto between = [&](int i, int j) {
      if (i > j) std::swap(i, j);
      for (const auto& [other, index] : mid[static_cast<std::size_t>(i)])
        if (other == j) return index;
      const int index = static_cast<int>(mesh.vertices.size());
      mesh.vertices.push_back(normalized(mesh.vertices[static_cast<std::size_t>(i)] +
                                         mesh.vertices[static_cast<std::size_t>(j)]));
      mid[static_cast<std::size_t>(i)].push_back({j, index});
      return index;
    };
    for (const FaceIndices& f : mesh.faces) {
      const int ab = between(f[0], f[1]), bc = between(f[1], f[2]), ca = between(f[2], f[0]);
      finer.insert(finer.end(), {{f[0], ab, ca}, {ab, f[1], bc}, {ca, bc, f[2]}, {ab, bc, ca}});
    }
    mesh.faces = finer;
  }
  return mesh;
}

}  // namespace shardwise::testing
