#pragma once
// One lane of a coverage map: a ray is launched, followed through its reflections, and every crossing of the
// measurement plane is added to a cell.
//
// Estimator (J. Hoydis et al., "Sionna RT: Differentiable Ray Tracing for Radio Propagation Modeling", 2023):
// a ray stands for the solid angle dOmega, so at unfolded length L it covers the share w = dOmega L^2 / (A
// cos) of a cell of area A. Summed over crossings,
//     power = W w (lambda / 4 pi L)^2 |E|^2          = (lambda/4pi)^2 dOmega/A x u,      u = W |E|^2 / cos
//     field = W w (lambda / 4 pi L) E exp(-j k L)    = (lambda/4pi) dOmega D/A x F,      F = W (L/D) E exp(-j
//     k L) / cos
// where the transmitter's gain g is a factor g of W in the power and sqrt(g) in the field; the lane adds u
// (and F, D the scene's diagonal); the caller multiplies by the constants once, at the end.

#include <cstdint>

#include "radio/coverage_grid_kernel.hpp"
#include "radio/coverage_sinks.hpp"
#include "radio/field_kernel.hpp"
#include "radio/fresnel_kernel.hpp"
#include "radio/launch_kernel.hpp"
#include "scene/scene_view.hpp"

namespace shardwise {

/// All that a lane reads. Copied by value into launches.
struct CoverageParams {
  SceneView scene;
  LaunchView launch;
  GridView grid;
  const SurfaceMaterial* materials = nullptr;  ///< indexed by SceneView::face_material
  std::int32_t material_count = 0;
  int bounces = 0;
  bool line_of_sight = true;
  bool slab_walls = false;
  double inverse_wavelength = 1;  ///< 1/m; read where fields are wanted
  double inverse_diagonal = 1;    ///< 1/m; read where fields are wanted
};

/// What one lane has done; the caller sums these.
struct LaneCounters {
  std::uint32_t segments = 0;  ///< closest-hit queries
  std::uint32_t rejected = 0;  ///< 1: inactive because of its input
  std::uint32_t overflow = 0;  ///< contributions outside the range of the sums: an error of the call
};

/// The state of a path at a reflection, before it.
struct SurfaceEvent {
  std::uint64_t lane;
  int depth;
  std::uint32_t prim;
  Vec3f point, normal, direction;  ///< the normal faces the ray; the direction is the incident one
  float weight, power;             ///< W and |E|^2 before the reflection
};

/// Hooks of a lane; this one does nothing and costs nothing.
struct NoCoverageHooks {
  SW_HD void surface_hit(const SurfaceEvent&) {}
  /// Called before leg `depth` >= 1 with |E|^2 after the reflection: false ends the path; it may raise the
  /// weight.
  SW_HD bool survives(std::uint64_t, int, float, float&) { return true; }
};

namespace detail {

/// The field part of one crossing at y = origin + t direction: W (L/D) E exp(-j 2 pi L/lambda) / cos.
SW_HD inline FieldSample field_sample(const CoverageParams& params, const ComplexVec3& field, Vec3d image,
                                      Vec3f origin, Vec3f direction, float t, float weight_over_cosine) {
  const Vec3d y = to_double(origin) + static_cast<double>(t) * to_double(direction);
  const double path = length(y - image);
  const SinCos phase = sincos_turn(path * params.inverse_wavelength);
  const double amplitude = static_cast<double>(weight_over_cosine) * (path * params.inverse_diagonal);
  const float re = static_cast<float>(amplitude * phase.cos),
              im = static_cast<float>(-(amplitude * phase.sin));
  const Vec3f a = field.re, b = field.im;
  return {{a.x * re - b.x * im, a.x * im + b.x * re, a.y * re - b.y * im, a.y * im + b.y * re,
           a.z * re - b.z * im, a.z * im + b.z * re}};
}

}  // namespace detail

/// A path between two of its steps. Depth d is the leg after d reflections.
struct LaneState {
  std::uint64_t lane;
  Vec3f origin, direction;
  ComplexVec3 field;
  float power;              ///< |E|^2
  float weight;             ///< W
  float t_limit;            ///< of the leg: tmax of the first, else infinity
  float inverse_root_gain;  ///< amplitudes carry weight x this; read where fields are wanted
  Vec3d image;              ///< of the source, mirrored at every reflection; kept where fields are wanted
  std::uint32_t pass;
  int depth;
  bool crosses;  ///< the leg meets the plane inside the window, if nothing is in between
  PlaneCrossing crossing;
};

/// The first leg of a lane. False: the lane is inactive.
template <class Sink>
SW_HD inline bool begin_lane(const CoverageParams& params, Sink& sink, std::uint64_t lane, LaneState& state,
                             LaneCounters& counters) {
  LaunchedRay ray;
  sink.begin(lane);
  if (params.launch.from_rows) {
    bool masked = false;
    if (!launch_row(params.launch.rows, lane, ray, masked)) {
      counters.rejected += masked ? 0 : 1;
      return false;
    }
  } else {
    launch_generated(params.launch, lane, ray);
  }
  state.lane = lane;
  state.origin = ray.origin;
  state.direction = ray.direction;
  state.field = {ray.field, {0, 0, 0}};
  state.power = norm(state.field);
  state.weight = ray.weight;
  state.t_limit = ray.tmax;
  state.inverse_root_gain = ray.inverse_root_gain;
  state.image = ray.source;
  state.pass = ray.pass;
  state.depth = 0;
  return true;
}

/// The point off the surface where the next leg starts.
SW_HD inline Vec3f lifted(const SceneView& scene, Vec3f point, Vec3f normal) {
  return point + scene.offset_at(point) * normal;
}

/// Before the leg is traced: where it meets the plane, and how far to trace it. False: the path is at its
/// end.
SW_HD inline bool prepare_leg(const CoverageParams& params, LaneState& state, float& t_max) {
  state.crosses = (state.depth > 0 || params.line_of_sight) &&
                  cross_plane(params.grid, state.origin, state.direction,
                              params.scene.offset_at(state.origin), state.crossing) &&
                  state.crossing.t < state.t_limit;
  // Nothing follows the last leg but its crossing: trace no further than that, and not at all without one.
  const bool last = state.depth == params.bounces;
  if (last && !state.crosses) return false;
  t_max = last ? state.crossing.t : state.t_limit;
  return true;
}

/// After the leg was traced: counts its crossing and reflects. False: the path is at its end.
template <class Sink, class Hooks>
SW_HD inline bool finish_leg(const CoverageParams& params, Sink& sink, Hooks& hooks, const Hit& hit,
                             LaneState& state, LaneCounters& counters) {
  ++counters.segments;
  if (state.crosses && (!hit.valid() || state.crossing.t < hit.t)) {
    const float weight_over_cosine = state.weight / state.crossing.cosine;
    FieldSample sample{};
    if constexpr (Sink::wants_fields)
      sample = detail::field_sample(params, state.field, state.image, state.origin, state.direction,
                                    state.crossing.t, weight_over_cosine * state.inverse_root_gain);
    if (!sink.add(state.lane, state.pass, state.depth, state.crossing.cell, weight_over_cosine * state.power,
                  sample))
      ++counters.overflow;
  }
  if (state.depth == params.bounces || !hit.valid()) return false;

  const std::int32_t material_index = params.scene.face_material[hit.prim];
  if (material_index < 0 || material_index >= params.material_count) return false;
  const SurfaceMaterial& material = params.materials[material_index];
  if ((material.flags & SurfaceMaterial::valid) == 0) return false;

  const BvhTriangle& triangle = params.scene.triangles[hit.record];
  const Vec3f edge1 = triangle.v1 - triangle.v0, edge2 = triangle.v2 - triangle.v0;
  const SurfaceFrame frame = surface_frame(edge1, edge2, state.direction);
  const Vec3f normal = frame.normal;
  const PolarizedPair<float> r =
      params.slab_walls ? reflect_slab(material, frame.cosine) : reflect_half_space(material, frame.cosine);
  const Vec3f reflected = reflect_direction(state.direction, normal, frame.cosine);
  const ComplexVec3 reflected_field = reflect_field_about(
      state.field, r, te_axis(frame.across, frame.squared, state.direction), state.direction, reflected);
  const float reflected_power = norm(reflected_field);
  if (!(reflected_power > 0)) return false;

  const Vec3f point = triangle.v0 + hit.u * edge1 + hit.v * edge2;
  hooks.surface_hit(
      {state.lane, state.depth, hit.prim, point, normal, state.direction, state.weight, state.power});
  if constexpr (Sink::wants_fields) state.image = mirror(state.image, triangle.v0, triangle.v1, triangle.v2);
  state.field = reflected_field;
  state.power = reflected_power;
  state.origin = lifted(params.scene, point, normal);
  state.direction = reflected;
  state.t_limit = std::numeric_limits<float>::infinity();
  ++state.depth;
  return hooks.survives(state.lane, state.depth, state.power, state.weight);
}

/// The smallest t of a leg, whose origin is already off the surface: t > 0.
inline constexpr float leg_t_min = std::numeric_limits<float>::min();

/// One lane from launch to end.
/// Tracer: Hit closest(Vec3f origin, Vec3f direction, float t_min, float t_max) const, a closed interval.
template <class Tracer, class Sink, class Hooks = NoCoverageHooks>
SW_HD inline LaneCounters coverage_lane(const CoverageParams& params, const Tracer& tracer, Sink& sink,
                                        std::uint64_t lane, Hooks hooks = Hooks{}) {
  LaneCounters counters;
  LaneState state;
  if (!begin_lane(params, sink, lane, state, counters)) return counters;
  float t_max = 0;
  while (prepare_leg(params, state, t_max)) {
    const Hit hit = tracer.closest(state.origin, state.direction, leg_t_min, t_max);
    if (!finish_leg(params, sink, hooks, hit, state, counters)) break;
  }
  return counters;
}

}  // namespace shardwise
