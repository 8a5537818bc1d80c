#pragma once
// Closest hits per second on one host thread, tracer by tracer.

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "scene/bvh8_builder.hpp"

namespace shardwise::bench {

struct TraceMesh {
  std::string name;
  std::vector<Vec3f> vertices;
  std::vector<FaceIndices> faces;
};

/// `count` small triangles, evenly spread in a cube.
TraceMesh triangle_cloud(int count);

/// A ground square with blocks_per_side^2 boxes of unlike heights.
TraceMesh box_city(int blocks_per_side);

/// A binary little-endian PLY of x, y, z floats and triangles as `list uchar int`. Throws Error(data) for
/// others.
TraceMesh read_simple_ply(const std::string& path);

/// "cloud", "city", or a file for read_simple_ply.
TraceMesh mesh_named(const std::string& name);

/// A tree over the faces that have an area.
Bvh8 build_for_trace(const TraceMesh& mesh);

struct TraceRay {
  Vec3f o, d;
  float t_min, t_max;
};

/// Walks of four legs from points above the middle of the mesh, turned by a random direction at each hit; not
/// sorted.
std::vector<TraceRay> bouncing_rays(const TraceMesh& mesh, const SceneView& scene, std::size_t count);

struct TraceRate {
  std::string tracer;
  double min_ns, median_ns;  ///< processor time per ray, over the repeats
  double hit_share;
  double fallback_share;  ///< rays that Embree's candidates did not decide
};

/// Traces bouncing_rays. The tracers take turns, repeat by repeat, so that a
/// change of the clock meets all of them. The first row is the bare loop of rtcIntersect1 where Embree is
/// built in.
std::vector<TraceRate> run_trace_host(const TraceMesh& mesh, std::size_t ray_count, int repeats,
                                      std::FILE* out);

/// Hits of Embree as ranked by our formula against the BVH body's, over `ray_count` bouncing rays, as a
/// table. Needs Embree; says so where it is not built in.
void compare_tracers(const TraceMesh& mesh, std::size_t ray_count, std::FILE* out);

}  // namespace shardwise::bench
