#pragma once
// Every operation on rows with good columns, for tests of what callers get wrong.

#include <array>
#include <cstring>
#include <limits>
#include <regex>

#include "dispatch/row_dispatcher.hpp"
#include "row_sweep.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/rays/camera.hpp"

namespace shardwise::test {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr int ignored = 2, chain_points = 4;

inline Scene built(const char* devices, SceneModel model = test_model()) {
  Scene scene(open_devices(devices), std::move(model));
  scene.build();
  return scene;
}

/// Good columns for every operation, to be spoiled.
struct Rows {
  std::vector<Vec3f> a, b, c, chain;
  std::vector<float> tmax, t_min;
  std::vector<std::uint8_t> active;
  std::vector<std::int32_t> ignore, chain_ignore, chain_length;
  std::vector<Vec2f> samples;

  explicit Rows(int rows) {
    std::mt19937 random(17);
    std::uniform_real_distribution<float> place(-2.5f, 2.5f), unit(0.1f, 1);
    const auto point = [&] { return Vec3f{place(random), place(random), place(random)}; };
    for (int i = 0; i < rows; ++i) {
      a.push_back(point());
      b.push_back(point());
      c.push_back(point());
      tmax.push_back(6 * unit(random));
      t_min.push_back(0);
      active.push_back(1);
      samples.push_back({unit(random), unit(random)});
      chain_length.push_back(chain_points - 1);
      for (int p = 0; p < chain_points; ++p) chain.push_back(point());
      for (int k = 0; k < ignored; ++k) ignore.push_back(static_cast<std::int32_t>(random() % 60));
      for (int k = 0; k < ignored * (chain_points - 1); ++k) chain_ignore.push_back(-1);
    }
  }
  Rays rays() const { return {a, c, tmax, active}; }
};

/// One operation with its columns, all of them given.
struct Call {
  std::string name;
  std::vector<std::string> columns;  ///< as messages call them
  std::function<RowSource(const Rows&)> source;
  std::function<Pending<RowResult>(Scene&, const RowSource&, const RowCallOptions&)> run;
};

template <class Options, class Function>
auto call_of(Function function, const std::function<void(Options&)>& change = {}) {
  return [function, change](Scene& scene, const RowSource& source, const RowCallOptions& common) {
    Options options;
    static_cast<RowCallOptions&>(options) = common;
    if (change) change(options);
    using Answer = decltype(function(scene, source, options).get());
    auto inner = std::make_shared<Pending<Answer>>(function(scene, source, options));
    return Pending<RowResult>([inner] { return RowResult(inner->get()); });
  };
}

inline std::vector<Call> all_calls() {
  const auto rays = [](const Rows& r) { return RowSource(r.rays()); };
  const auto points = [](const Rows& r) { return RowSource(Points{r.a, r.active}); };
  return {
      {"intersect", {"origin", "direction", "tmax", "active"}, rays, call_of<IntersectOptions>(intersect)},
      {"trace_reflections",
       {"origin", "direction", "tmax", "active"},
       rays,
       call_of<ReflectionOptions>(trace_reflections,
                                  [](ReflectionOptions& options) {
                                    options.max_bounces = 3;
                                    options.fields = ReflectionFields::all;
                                  })},
      {"nearest_edge",
       {"origin", "direction", "tmax", "active"},
       rays,
       call_of<RowCallOptions>(nearest_edge_of_rays)},
      {"nearest_edge", {"point", "active"}, points, call_of<NearestEdgeOptions>(nearest_edge_of_points)},
      {"nearest_edges",
       {"point", "active"},
       points,
       call_of<NearestEdgesOptions>(nearest_edges, [](NearestEdgesOptions& options) { options.k = 3; })},
      {"visible",
       {"start", "end", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(Segments{r.a, r.b, r.ignore, r.active});
       },
       call_of<VisibleOptions>(visible, [](VisibleOptions& options) { options.first_blocker = true; })},
      {"visible_pair",
       {"start", "end_a", "end_b", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(SegmentPairs{r.a, r.b, r.c, r.ignore, r.active});
       },
       call_of<VisiblePairOptions>(visible_pair)},
      {"visible_edge",
       {"source", "edge_position", "edge_direction", "t_min", "t_max", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(EdgeSegments{r.a, r.b, r.c, r.t_min, r.tmax, r.ignore, r.active});
       },
       call_of<VisibleEdgeOptions>(visible_edge)},
      {"visible_chain",
       {"points", "chain_length", "ignore", "active"},
       [](const Rows& r) {
         return RowSource(Chains{r.chain, r.chain_length, r.chain_ignore, r.active});
       },
       call_of<VisibleChainOptions>(
           visible_chain, [](VisibleChainOptions& options) { options.points_per_chain = chain_points; })},
      {"segment_penetration",
       {"origin", "target", "active"},
       [](const Rows& r) {
         return RowSource(PenetrationSegments{r.a, r.b, r.active});
       },
       call_of<PenetrationOptions>(segment_penetration,
                                   [](PenetrationOptions& options) { options.hit_capacity = 2; })},
  };
}

inline RowCallOptions spread() {
  RowCallOptions options;
  options.min_rows_per_device = 0;
  return options;
}

}  // namespace shardwise::test
