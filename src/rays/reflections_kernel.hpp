#pragma once
// One row of trace_reflections: specular reflections of one ray, bounce by bounce.

#include "rays/ray_queries_kernel.hpp"
#include "rays/row_kernel.hpp"
#include "rays/surface_kernel.hpp"

namespace shardwise {

struct ReflectionInputs {
  const Vec3f* origin = nullptr;
  const Vec3f* direction =
      nullptr;                  ///< of any length; kept by reflections, so t is in units of it throughout
  const float* tmax = nullptr;  ///< of the first leg only
  const std::uint8_t* active = nullptr;
};

/// Columns of [rows, bounces] unless said otherwise; any may be null.
struct ReflectionOutputs {
  std::uint8_t* valid = nullptr;         ///< valid[b] implies valid[b - 1]
  float* t = nullptr;                    ///< from the hit before, or the origin; +inf
  std::int32_t* prim_ids = nullptr;      ///< -1
  Vec3f* image_sources = nullptr;        ///< the origin mirrored in planes 0 to b
  std::int32_t* bounce_count = nullptr;  ///< [rows]
  Vec3f* hit_points = nullptr;
  Vec3f* geo_normals = nullptr;  ///< turned against the incoming ray
  std::int32_t* shape_ids = nullptr;
  std::int32_t* local_prim_ids = nullptr;
  float* trailing_t = nullptr;            ///< [rows] the next hit; +inf
  std::int32_t* trailing_prim = nullptr;  ///< [rows]
  Vec3f* trailing_direction = nullptr;    ///< [rows] after the last bounce
  Vec3f* trailing_origin = nullptr;       ///< [rows] the last hit, or the origin
};

template <class Queries>
struct ReflectionRows {
  Queries queries;
  FaceView faces;  ///< read for shape_ids and local_prim_ids only
  ReflectionInputs in;
  ReflectionOutputs out;
  int bounces = 1;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    const std::int64_t first = row * bounces;
    State state;
    int count = 0;
    if (begin(row, state)) {
      while (count < bounces && bounce(state, first + count)) ++count;
      store_trailing(row, state, count == bounces);
    } else {
      store_no_trailing(row);
    }
    store(out.bounce_count, row, count);
    for (int b = count; b < bounces; ++b) store_unused(first + b);
  }

 private:
  struct State {
    Vec3f at;      // the origin, or the last hit
    Vec3f origin;  // of the next leg, off the surface
    Vec3f direction;
    Vec3d image;
    float t_min, t_max;
  };

  SW_HD bool begin(std::int64_t row, State& state) const {
    if (is_masked(in.active, row)) return false;
    state.origin = state.at = in.origin[row];
    state.direction = in.direction[row];
    state.t_min = user_ray_t_min;
    state.t_max = ray_limit(in.tmax, row);
    if (!RayData::can_hit(state.origin, state.direction) || !(state.t_max > 0)) {
      count_rejected(counters);
      return false;
    }
    state.image = to_double(state.origin);
    return true;
  }

  /// The parameter of a hit as measured from the true point before, so that no length holds an offset.
  SW_HD static float parameter(const State& state, const Vec3f& point) {
    const Vec3d d = to_double(state.direction);
    return static_cast<float>(dot(to_double(point) - to_double(state.at), d) / dot(d, d));
  }

  /// Traces a leg and reflects; fills the slot. False: nothing hit.
  SW_HD bool bounce(State& state, std::int64_t slot) const {
    const Hit hit = queries.closest(state.origin, state.direction, state.t_min, state.t_max);
    if (!hit.valid()) return false;
    const BvhTriangle& triangle = queries.scene.triangles[hit.record];
    Vec3d normal = exact_normal(triangle);
    const Vec3d incoming = to_double(state.direction);
    double along = dot(incoming, normal);
    if (along > 0) {
      normal = -normal;
      along = -along;
    }
    if (normal == Vec3d{}) return false;
    const Vec3f point = surface_point(triangle, hit.u, hit.v);
    const Vec3f unit = to_float(normal);
    store(out.valid, slot, 1);
    store(out.t, slot, parameter(state, point));
    store(out.prim_ids, slot, static_cast<std::int32_t>(hit.prim));
    if (out.image_sources) {
      state.image = mirror_in(triangle, normal, state.image);
      out.image_sources[slot] = to_float(state.image);
    }
    store(out.hit_points, slot, point);
    store(out.geo_normals, slot, unit);
    if (out.shape_ids || out.local_prim_ids) {
      const std::int32_t shape = faces.shape_of_face[hit.prim];
      store(out.shape_ids, slot, shape);
      store(out.local_prim_ids, slot, static_cast<std::int32_t>(hit.prim) - faces.shapes[shape].face_offset);
    }
    state.direction = to_float(incoming - (2.0 * along) * normal);
    state.at = point;
    state.origin = point + queries.scene.offset_at(point) * unit;  // the side that the ray leaves to
    state.t_min = leg_ray_t_min;
    state.t_max = no_distance();
    return true;
  }

  SW_HD void store_unused(std::int64_t slot) const {
    store(out.valid, slot, 0);
    store(out.t, slot, no_distance());
    store(out.prim_ids, slot, -1);
    store(out.image_sources, slot, Vec3f{});
    store(out.hit_points, slot, Vec3f{});
    store(out.geo_normals, slot, Vec3f{});
    store(out.shape_ids, slot, -1);
    store(out.local_prim_ids, slot, -1);
  }

  /// `open`: all bounces were used up, so what comes next is not known yet.
  SW_HD void store_trailing(std::int64_t row, const State& state, bool open) const {
    if (out.trailing_t || out.trailing_prim) {
      const Hit hit =
          open ? queries.closest(state.origin, state.direction, state.t_min, state.t_max) : no_hit();
      store(out.trailing_prim, row, static_cast<std::int32_t>(hit.prim));
      if (out.trailing_t)
        out.trailing_t[row] =
            hit.valid() ? parameter(state, surface_point(queries.scene.triangles[hit.record], hit.u, hit.v))
                        : no_distance();
    }
    store(out.trailing_direction, row, state.direction);
    store(out.trailing_origin, row, state.at);
  }
  SW_HD void store_no_trailing(std::int64_t row) const {
    store(out.trailing_t, row, no_distance());
    store(out.trailing_prim, row, -1);
    store(out.trailing_direction, row, Vec3f{});
    store(out.trailing_origin, row, Vec3f{});
  }
};

}  // namespace shardwise
