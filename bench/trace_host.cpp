#include "trace_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>

#include "bare_embree.hpp"
#include "scene/bvh8_kernel.hpp"
#include "shardwise/runtime/error.hpp"
#if SHARDWISE_WITH_EMBREE
#include "scene/embree_tracer.hpp"
#endif

namespace shardwise::bench {
namespace {

class Random {
 public:
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(engine_() >> 40) * 0x1p-24f;
  }
  Vec3f direction() {
    for (;;) {
      const Vec3f v{uniform(-1, 1), uniform(-1, 1), uniform(-1, 1)};
      const float n = dot(v, v);
      if (n > 0.01f && n < 1) return normalized(v);
    }
  }

 private:
  std::mt19937_64 engine_{1};
};

void add_box(TraceMesh& mesh, Vec3f low, Vec3f high) {
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

/// The calling thread's processor time: other programs on the machine do not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

/// pass: traces the rays and says how many hit.
struct Contender {
  std::string name;
  std::function<std::size_t(std::span<const TraceRay>)> pass;
  double min_ns = 0, median_ns = 0;  ///< sums over the blocks
  std::size_t hits = 0;
  std::uint64_t fallbacks = 0;
};

template <class Tracer>
std::size_t count_hits(const Tracer& tracer, std::span<const TraceRay> rays) {
  std::size_t hits = 0;
  for (const TraceRay& ray : rays) hits += tracer.closest(ray.o, ray.d, ray.t_min, ray.t_max).valid();
  return hits;
}

}  // namespace

TraceMesh triangle_cloud(int count) {
  Random random;
  TraceMesh mesh{fmt::format("cloud of {} triangles", count), {}, {}};
  const float size = 1.5f / std::cbrt(static_cast<float>(count));
  for (int i = 0; i < count; ++i) {
    const Vec3f p{random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(-1, 1)};
    const auto n = static_cast<std::int32_t>(mesh.vertices.size());
    mesh.vertices.insert(mesh.vertices.end(),
                         {p, p + size * random.direction(), p + size * random.direction()});
    mesh.faces.push_back({n, n + 1, n + 2});
  }
  return mesh;
}

TraceMesh box_city(int blocks_per_side) {
  Random random;
  TraceMesh mesh{fmt::format("city of {} boxes", blocks_per_side * blocks_per_side), {}, {}};
  const float side = 40.0f * static_cast<float>(blocks_per_side);
  mesh.vertices = {{0, 0, 0}, {side, 0, 0}, {side, side, 0}, {0, side, 0}};
  mesh.faces = {{0, 1, 2}, {0, 2, 3}};
  for (int j = 0; j < blocks_per_side; ++j)
    for (int i = 0; i < blocks_per_side; ++i) {
      const Vec3f low{40.0f * static_cast<float>(i) + 5, 40.0f * static_cast<float>(j) + 5, 0};
      add_box(mesh, low, low + Vec3f{random.uniform(15, 30), random.uniform(15, 30), random.uniform(8, 60)});
    }
  return mesh;
}

TraceMesh read_simple_ply(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_data(fmt::format("{}: cannot be opened", path));
  std::size_t vertex_count = 0, face_count = 0;
  std::string line, header;
  while (std::getline(in, line) && line != "end_header") {
    if (line.starts_with("element vertex "))
      vertex_count = std::stoul(line.substr(15));
    else if (line.starts_with("element face "))
      face_count = std::stoul(line.substr(13));
    else if (!line.starts_with("comment"))
      header += line + ';';
  }
  const std::string known =
      "ply;format binary_little_endian 1.0;property float x;property float y;property float z;property list "
      "uchar int ";
  if (header != known + "vertex_indices;" && header != known + "vertex_index;")
    throw_data(fmt::format(
        "{}: this benchmark reads binary little-endian float x, y, z and uchar-int lists only", path));
  TraceMesh mesh{path, std::vector<Vec3f>(vertex_count), std::vector<FaceIndices>(face_count)};
  in.read(reinterpret_cast<char*>(mesh.vertices.data()), static_cast<std::streamsize>(12 * vertex_count));
  for (FaceIndices& face : mesh.faces) {
    if (in.get() != 3)
      throw_data(fmt::format("{}: a face that is no triangle, or the file ends early", path));
    in.read(reinterpret_cast<char*>(face.data()), 12);
  }
  if (!in) throw_data(fmt::format("{}: the file ends before its {} faces do", path, face_count));
  return mesh;
}

std::vector<TraceRay> bouncing_rays(const TraceMesh& mesh, const SceneView& scene, std::size_t count) {
  Random random;
  Vec3f low = mesh.vertices.at(0), high = low;
  for (const Vec3f& v : mesh.vertices)
    for (int a = 0; a < 3; ++a) {
      low.set(a, std::min(low[a], v[a]));
      high.set(a, std::max(high[a], v[a]));
    }
  const BvhTracer tracer{scene};
  std::vector<TraceRay> rays;
  while (rays.size() < count) {
    Vec3f o{random.uniform(0.75f * low.x + 0.25f * high.x, 0.25f * low.x + 0.75f * high.x),
            random.uniform(0.75f * low.y + 0.25f * high.y, 0.25f * low.y + 0.75f * high.y),
            random.uniform(low.z + 0.01f * (high.z - low.z), low.z + 0.6f * (high.z - low.z))};
    Vec3f d = random.direction();
    for (int leg = 0; leg < 4 && rays.size() < count; ++leg) {
      rays.push_back({o, d, 1e-4f, INFINITY});
      const Hit hit = tracer.closest(o, d, 1e-4f, INFINITY);
      if (!hit.valid()) break;
      const BvhTriangle& tri = scene.triangles[hit.record];
      Vec3f n = normalized(cross(tri.v1 - tri.v0, tri.v2 - tri.v0));
      if (dot(n, d) > 0) n = -n;
      o = tri.v0 + hit.u * (tri.v1 - tri.v0) + hit.v * (tri.v2 - tri.v0);
      o = o + scene.offset_at(o) * n;
      d = random.direction();
      if (dot(d, n) < 0) d = -d;
    }
  }
  return rays;
}

Bvh8 build_for_trace(const TraceMesh& mesh) {
  std::vector<std::uint8_t> hittable;
  for (const FaceIndices& f : mesh.faces) {
    const auto corner = [&](std::size_t k) {
      return to_double(mesh.vertices.at(static_cast<std::size_t>(f[k])));
    };
    const Vec3d n = cross(corner(1) - corner(0), corner(2) - corner(0));
    hittable.push_back(is_finite(n) && max_abs(n) > 0);
  }
  return build_bvh8(mesh.vertices, mesh.faces, hittable);
}

TraceMesh mesh_named(const std::string& name) {
  return name == "cloud" ? triangle_cloud(1 << 17) : name == "city" ? box_city(60) : read_simple_ply(name);
}

std::vector<TraceRate> run_trace_host(const TraceMesh& mesh, std::size_t ray_count, int repeats,
                                      std::FILE* out) {
  const double build_start = thread_ns();
  const Bvh8 bvh = build_for_trace(mesh);
  const double build_ns = thread_ns() - build_start;
  SceneView scene = view_of(bvh);
  scene.diagonal = 2 * scene.max_coordinate;
  const std::vector<TraceRay> rays = bouncing_rays(mesh, scene, ray_count);
  fmt::print(
      out, "{}: {} triangles, {} nodes, {} levels, built in {:.1f} ms; {} rays, one thread, {} repeats\n",
      mesh.name, scene.triangle_count, scene.node_count, bvh.depth, build_ns * 1e-6, rays.size(), repeats);

  std::vector<Contender> contenders;
#if SHARDWISE_WITH_EMBREE
  const EmbreeScene embree(scene);
  const BareScene robust(scene, RTC_SCENE_FLAG_ROBUST), leaky(scene, RTC_SCENE_FLAG_NONE);
  std::uint64_t fallbacks = 0;
  contenders.push_back({"embree, bare", [&](const auto& r) { return bare_loop(robust.native(), r); }});
  contenders.push_back({"embree, leaky", [&](const auto& r) { return bare_loop(leaky.native(), r); }});
  contenders.push_back({"embree, ranked", [&](const auto& r) {
                          return count_hits(EmbreeTracer{scene, &embree, &fallbacks}, r);
                        }});
#endif
  contenders.push_back({"bvh8 body", [&](const auto& r) { return count_hits(BvhTracer{scene}, r); }});
  // Block by block, so that a neighbour's burst on this machine spoils a block and not a pass.
  constexpr std::size_t block_rays = 8192;
  for (std::size_t first = 0; first < rays.size(); first += block_rays) {
    const std::span block =
        std::span<const TraceRay>(rays).subspan(first, std::min(block_rays, rays.size() - first));
    std::vector<std::vector<double>> times(contenders.size());
    for (int repeat = -1; repeat < repeats; ++repeat)  // the first one warms up
      for (std::size_t c = 0; c < contenders.size(); ++c) {
        const double start = thread_ns();
        const std::size_t hits = contenders[c].pass(block);
        if (repeat >= 0) {
          times[c].push_back(thread_ns() - start);
        } else {
          contenders[c].hits += hits;
        }
      }
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      std::sort(times[c].begin(), times[c].end());
      contenders[c].min_ns += times[c].front();
      contenders[c].median_ns += times[c][times[c].size() / 2];
    }
  }
#if SHARDWISE_WITH_EMBREE
  for (Contender& c : contenders)
    if (c.name == "embree, ranked") c.fallbacks = fallbacks / static_cast<std::uint64_t>(repeats + 1);
#endif
  std::vector<TraceRate> rates;
  fmt::print(out, "{:16} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>10}\n", "tracer", "min ns", "median ns",
             "Mray/s max", "Mray/s med", "of first", "hits", "fallbacks");
  const auto n = static_cast<double>(rays.size());
  for (const Contender& c : contenders) {
    rates.push_back({c.name, c.min_ns / n, c.median_ns / n, static_cast<double>(c.hits) / n,
                     static_cast<double>(c.fallbacks) / n});
    const TraceRate& r = rates.back();
    fmt::print(out, "{:16} {:10.1f} {:10.1f} {:10.3f} {:10.3f} {:10.3f} {:8.4f} {:10.1e}\n", r.tracer,
               r.min_ns, r.median_ns, 1e3 / r.min_ns, 1e3 / r.median_ns,
               rates.front().median_ns / r.median_ns, r.hit_share, r.fallback_share);
  }
  return rates;
}

void compare_tracers(const TraceMesh& mesh, std::size_t ray_count, std::FILE* out) {
#if SHARDWISE_WITH_EMBREE
  const Bvh8 bvh = build_for_trace(mesh);
  SceneView scene = view_of(bvh);
  scene.diagonal = 2 * scene.max_coordinate;
  const std::vector<TraceRay> rays = bouncing_rays(mesh, scene, ray_count);
  const EmbreeScene embree(scene);
  const EmbreeTracer ranked{scene, &embree};
  const BvhTracer body{scene};
  std::size_t hits = 0, missed = 0, invented = 0, other_id = 0, other_id_near = 0, other_t = 0;
  for (const TraceRay& ray : rays) {
    const Hit a = body.closest(ray.o, ray.d, ray.t_min, ray.t_max);
    const Hit b = ranked.closest(ray.o, ray.d, ray.t_min, ray.t_max);
    hits += a.valid();
    missed += a.valid() && !b.valid();
    invented += !a.valid() && b.valid();
    if (!a.valid() || !b.valid()) continue;
    other_id += a.prim != b.prim;
    other_id_near += a.prim != b.prim && std::abs(a.t - b.t) <= 8 * 0x1p-23f * a.t;
    other_t += a.prim == b.prim && a.t != b.t;
  }
  fmt::print(out,
             "{}: {} rays, {} hits by the BVH; Embree ranked: {} missed, {} invented, {} another triangle "
             "({} of them "
             "within 8 ulp), {} the same triangle at another t\n",
             mesh.name, rays.size(), hits, missed, invented, other_id, other_id_near, other_t);
#else
  (void)ray_count;
  fmt::print(out, "{}: Embree is not built in; nothing to compare\n", mesh.name);
#endif
}

}  // namespace shardwise::bench
