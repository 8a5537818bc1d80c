#pragma once
// A scene and batches for every operation on rows, with bad rows among the good.

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "shardwise/rays/generators.hpp"
#include "shardwise/rays/intersect.hpp"
#include "shardwise/rays/nearest_edge.hpp"
#include "shardwise/rays/penetration.hpp"
#include "shardwise/rays/reducers.hpp"
#include "shardwise/rays/reflections.hpp"
#include "shardwise/rays/visible.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::test {

/// Random triangles in a box of side 4 around the origin, and a closed tetrahedron.
inline SceneModel test_model() {
  std::mt19937 random(9);
  std::uniform_real_distribution<float> place(-2, 2), offset(-0.6f, 0.6f);
  Mesh soup;
  soup.name = "soup";
  for (int i = 0; i < 60; ++i) {
    const Vec3f middle{place(random), place(random), place(random)};
    for (int corner = 0; corner < 3; ++corner)
      soup.vertices.push_back(middle + Vec3f{offset(random), offset(random), offset(random)});
    soup.faces.push_back({3 * i, 3 * i + 1, 3 * i + 2});
  }
  Mesh solid;
  solid.name = "solid";
  solid.vertices = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  solid.faces = {{0, 2, 1}, {0, 1, 3}, {0, 3, 2}, {1, 2, 3}};
  SceneModel model;
  model.add_mesh(std::move(soup));
  model.add_mesh(std::move(solid));
  return model;
}

/// One dynamic triangle at z = 0 over the unit square's corner.
inline SceneModel moving_model() {
  Mesh mesh;
  mesh.name = "plate";
  mesh.vertices = {{-4, -4, 0}, {8, -4, 0}, {-4, 8, 0}};
  mesh.faces = {{0, 1, 2}};
  SceneModel model;
  model.add_mesh(std::move(mesh), true);
  return model;
}
inline void move_triangle(SceneModel& model, float z) {
  const std::vector<Vec3f> vertices{{-4, -4, z}, {8, -4, z}, {-4, 8, z}};
  model.update_mesh_vertices(0, vertices);
}

/// Columns for every operation; every 20th row or so has something wrong with it.
class Batches {
 public:
  static constexpr int chain_points = 4;

  Batches(std::int64_t rows, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> place(-2.5f, 2.5f), unit(0, 1);
    const auto point = [&] {
      Vec3f p{place(random), place(random), place(random)};
      if (random() % 40 == 0) p.y = std::numeric_limits<float>::quiet_NaN();
      if (random() % 60 == 0) p.x = std::numeric_limits<float>::infinity();
      return p;
    };
    for (std::int64_t i = 0; i < rows; ++i) {
      a_.push_back(point());
      b_.push_back(point());
      c_.push_back(random() % 30 == 0 ? Vec3f{} : point());
      tmax_.push_back(random() % 20 == 0 ? -1.0f : 4 * unit(random));
      t_min_.push_back(0.1f * unit(random));
      active_.push_back(random() % 10 != 0);
      samples_.push_back({unit(random), unit(random)});
      chain_length_.push_back(static_cast<std::int32_t>(random() % 6) - 1);
      for (int p = 0; p < chain_points; ++p) chain_.push_back(point());
      for (int k = 0; k < 2; ++k) ignore_.push_back(static_cast<std::int32_t>(random() % 70) - 3);
    }
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(a_.size()); }

  Rays rays() const { return {a_, c_, tmax_, active_}; }
  Segments segments() const { return {a_, b_, ignore_, active_}; }
  SegmentPairs pairs() const { return {a_, b_, c_, ignore_, active_}; }
  EdgeSegments edges() const { return {a_, b_, c_, t_min_, tmax_, ignore_, active_}; }
  Chains chains() const { return {chain_, chain_length_, {}, active_}; }
  PenetrationSegments crossings() const { return {a_, b_, active_}; }
  Points points() const { return {a_, active_}; }
  Samples samples() const { return {samples_, {}}; }

 private:
  std::vector<Vec3f> a_, b_, c_, chain_;
  std::vector<float> tmax_, t_min_;
  std::vector<std::uint8_t> active_;
  std::vector<Vec2f> samples_;
  std::vector<std::int32_t> chain_length_, ignore_;
};

}  // namespace shardwise::test
