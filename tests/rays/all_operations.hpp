#pragma once
// Every row operation on rays with all its columns, over one scene and one batch: what tests of splits,
// platforms and devices compare.

#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "shardwise/rays/camera.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/nearest_edge.hpp"
#include "shardwise/rays/penetration.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/rays/visible.hpp"

namespace shardwise::testing {

inline Mesh box(const char* name, Vec3f low, Vec3f high, bool flat) {
  Mesh mesh;
  mesh.name = name;
  for (int k = 0; k < 8; ++k)
    mesh.vertices.push_back({k & 1 ? high.x : low.x, k & 2 ? high.y : low.y, k & 4 ? high.z : low.z});
  mesh.faces = {{0, 2, 3}, {0, 3, 1}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                {2, 6, 7}, {2, 7, 3}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
  mesh.use_face_normals = flat;
  return mesh;
}

/// A room with blocks in it, one of them rough.
inline SceneModel room_with_blocks() {
  SceneModel m;
  m.add_mesh(box("room", {-10, -10, -1}, {10, 10, 9}, true));
  const std::int32_t block = m.add_mesh(box("block", {0, 0, -1}, {2, 3, 4}, false));
  for (int k = 0; k < 5; ++k)
    m.add_instance(block, Transform::translation({-8.0 + 3.5 * k, -7 + 2.5 * k, 0.1 * k}));
  Mesh rough = box("rough", {-9, 4, 0}, {-5, 8, 5}, false);
  std::mt19937 random(2);
  std::uniform_real_distribution<float> off(-0.4f, 0.4f);
  for (int k = 0; k < 300; ++k) {
    const auto n = static_cast<std::int32_t>(rough.vertices.size());
    const Vec3f at{-7 + 4 * off(random), 6 + 4 * off(random), 2.5f + 5 * off(random)};
    for (int corner = 0; corner < 3; ++corner)
      rough.vertices.push_back(at + Vec3f{off(random), off(random), off(random)});
    rough.faces.push_back({n, n + 1, n + 2});
  }
  for (const Vec3f& v : rough.vertices) rough.uv.push_back({v.x, v.y});
  rough.face_uv = rough.faces;
  m.add_mesh(rough);
  return m;
}

struct Inputs {
  std::vector<Vec3f> origins, directions, targets, others;
  std::vector<float> tmax, zero, one;
  std::vector<std::uint8_t> active;
  std::vector<std::int32_t> ignore, chain_length;
  std::vector<Vec3f> chains;
  std::vector<Vec2f> samples;
  static constexpr int ignored = 2, points = 4;

  explicit Inputs(int rows) {
    std::mt19937 random(9);
    const auto number = [&](float low, float high) {
      return std::uniform_real_distribution<float>(low, high)(random);
    };
    const auto place = [&] { return Vec3f{number(-9, 9), number(-9, 9), number(-0.5f, 8)}; };
    for (int i = 0; i < rows; ++i) {
      origins.push_back(place());
      targets.push_back(place());
      others.push_back(place());
      directions.push_back({number(-1, 1), number(-1, 1), number(-1, 1)});
      tmax.push_back(i % 4 == 0 ? number(1, 20) : INFINITY);
      zero.push_back(0);
      one.push_back(1);
      active.push_back(i % 13 != 0);
      for (int k = 0; k < ignored; ++k) ignore.push_back(static_cast<std::int32_t>(random() % 90) - 1);
      chain_length.push_back(static_cast<std::int32_t>(random() % 5) - 1);
      for (int k = 0; k < points; ++k) chains.push_back(place());
      samples.push_back({number(0, 1), i % 19 == 0 ? INFINITY : number(0, 1)});
      if (i % 17 == 0) origins.back().x = NAN;
    }
  }
  Rays rays() const { return {origins, directions, tmax, active}; }
};

/// The bytes of all columns of an answer.
inline std::vector<std::byte> bytes_of(const RowAnswer& answer) {
  std::vector<std::byte> all;
  for (std::size_t c = 0; c < answer.table->names.size(); ++c) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(answer.table->rows) * answer.table->row_bytes[c]);
    answer.table->read(static_cast<int>(c), bytes);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

struct Answer {
  std::vector<std::byte> bytes;
  std::int64_t rejected = 0, flagged = 0;
  friend bool operator==(const Answer&, const Answer&) = default;
};
/// By operation.
using Answers = std::map<std::string, Answer>;

/// Names of the operations whose answers differ.
inline std::vector<std::string> differences(const Answers& a, const Answers& b) {
  std::vector<std::string> names;
  for (const auto& [name, answer] : a)
    if (!b.contains(name) || !(b.at(name) == answer)) names.push_back(name);
  if (a.size() != b.size()) names.push_back("(other operations)");
  return names;
}

/// `change` may set options. `host_memory`: rows come from host memory and go there, as any platform can;
/// else they lie on the master.
inline Answers run_all(Scene& scene, const Inputs& in, bool host_memory,
                       const std::function<void(RowOptions&)>& change = {}) {
  Answers answers;
  const auto keep = [&](const char* name, const RowAnswer& answer) {
    answers[name] = {bytes_of(answer), answer.rejected, answer.flagged};
  };
  const auto apply = [&](RowCallOptions& options) {
    options.min_rows_per_device = 0;
    if (host_memory) options.sink = to_host();
    if (change) change(options);
  };
  const auto from = [&](const auto& batch) { return host_memory ? on_host(batch) : on_master(batch); };

  IntersectOptions full;
  apply(full);
  keep("intersect", intersect(scene, from(in.rays()), full).get());

  const Segments segments{in.origins, in.targets, in.ignore, in.active};
  VisibleOptions first;
  apply(first);
  first.first_blocker = true;
  keep("visible with blocker", visible(scene, from(segments), first).get());
  VisibleOptions any;
  apply(any);
  keep("visible", visible(scene, from(segments), any).get());
  VisiblePairOptions pair;
  apply(pair);
  const SegmentPairs pairs{in.origins, in.targets, in.others, in.ignore, in.active};
  keep("visible_pair", visible_pair(scene, from(pairs), pair).get());
  VisibleEdgeOptions edge;
  apply(edge);
  const EdgeSegments edges{in.origins, in.targets, in.directions, in.zero, in.one, in.ignore, in.active};
  keep("visible_edge", visible_edge(scene, from(edges), edge).get());
  VisibleChainOptions chain;
  apply(chain);
  chain.points_per_chain = Inputs::points;
  const Chains chains{in.chains, in.chain_length, {}, in.active};
  keep("visible_chain", visible_chain(scene, from(chains), chain).get());

  ReflectionOptions reflections;
  apply(reflections);
  reflections.max_bounces = 3;
  reflections.fields = ReflectionFields::all;
  keep("trace_reflections", trace_reflections(scene, from(in.rays()), reflections).get());
  PenetrationOptions penetration;
  apply(penetration);
  penetration.hit_capacity = 2;
  const PenetrationSegments crossed{in.origins, in.targets, in.active};
  keep("segment_penetration", segment_penetration(scene, from(crossed), penetration).get());

  const Points points{in.origins, in.active};
  NearestEdgeOptions nearest;
  apply(nearest);
  nearest.echo = true;
  keep("nearest_edge of points", nearest_edge_of_points(scene, from(points), nearest).get());
  RowCallOptions of_rays;
  apply(of_rays);
  keep("nearest_edge of rays", nearest_edge_of_rays(scene, from(in.rays()), of_rays).get());
  NearestEdgesOptions several;
  apply(several);
  several.k = 4;
  keep("nearest_edges", nearest_edges(scene, from(points), several).get());

  Camera camera{400, 300, 80, {}};
  camera.camera_to_world = Transform::translation({1, 2, 3});
  RowCallOptions plain;
  apply(plain);
  keep("sample_ray", sample_ray(scene, camera, from(Samples{in.samples, {}}), plain).get());
  keep("world_to_sample", world_to_sample(scene, camera, from(WorldPointBatch{in.origins}), plain).get());
  SampleToWorldOptions depth;
  apply(depth);
  keep("sample_to_world", sample_to_world(scene, camera, from(Samples{in.samples, in.tmax}), depth).get());
  return answers;
}

}  // namespace shardwise::testing
