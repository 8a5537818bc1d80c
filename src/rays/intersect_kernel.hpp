#pragma once
// One row of intersect: the closest surface along a ray.

#include "rays/ray_queries_kernel.hpp"
#include "rays/row_kernel.hpp"
#include "rays/surface_kernel.hpp"

namespace shardwise {

struct IntersectInputs {
  const Vec3f* origin = nullptr;
  const Vec3f* direction = nullptr;  ///< of any length; t is in units of it
  const float* tmax = nullptr;
  const std::uint8_t* active = nullptr;
};

/// Any column may be null.
struct IntersectOutputs {
  float* t = nullptr;
  Vec3f* point = nullptr;
  Vec3f* geometric_normal = nullptr;  ///< by winding, not turned towards the ray
  Vec3f* barycentric = nullptr;       ///< weights of corners 0, 1, 2
  std::int32_t* shape_id = nullptr;
  std::int32_t* local_prim_id = nullptr;
  std::int32_t* global_prim_id = nullptr;
  Vec3f* shading_normal = nullptr;
  Vec2f* uv = nullptr;
};

template <class Queries>
struct IntersectRows {
  Queries queries;
  FaceView faces;  ///< read for shape_id, local_prim_id, shading_normal and uv only
  IntersectInputs in;
  IntersectOutputs out;
  RowCounters* counters = nullptr;

  SW_HD void operator()(std::int64_t row) const {
    const Hit hit = trace(row);
    store(out.t, row, hit.t);
    if (!hit.valid()) return store_miss(row);
    const SceneView& scene = queries.scene;
    const BvhTriangle& triangle = scene.triangles[hit.record];
    if (out.point) out.point[row] = surface_point(triangle, hit.u, hit.v);
    store(out.barycentric, row, Vec3f{1.0f - hit.u - hit.v, hit.u, hit.v});
    store(out.global_prim_id, row, static_cast<std::int32_t>(hit.prim));
    if (out.shape_id || out.local_prim_id) {
      const std::int32_t shape = faces.shape_of_face[hit.prim];
      store(out.shape_id, row, shape);
      store(out.local_prim_id, row, static_cast<std::int32_t>(hit.prim) - faces.shapes[shape].face_offset);
    }
    if (out.geometric_normal || out.shading_normal) {
      const Vec3f normal = to_float(exact_normal(triangle));
      store(out.geometric_normal, row, normal);
      if (out.shading_normal) out.shading_normal[row] = shading_normal(faces, hit.prim, hit.u, hit.v, normal);
    }
    if (out.uv) out.uv[row] = texture_coordinates(faces, hit.prim, hit.u, hit.v);
  }

 private:
  SW_HD Hit trace(std::int64_t row) const {
    if (is_masked(in.active, row)) return no_hit();
    const Vec3f origin = in.origin[row], direction = in.direction[row];
    const float tmax = ray_limit(in.tmax, row);
    if (!RayData::can_hit(origin, direction) || !(tmax > 0)) {
      count_rejected(counters);
      return no_hit();
    }
    return queries.closest(origin, direction, user_ray_t_min, tmax);
  }

  SW_HD void store_miss(std::int64_t row) const {
    store(out.point, row, Vec3f{});
    store(out.geometric_normal, row, Vec3f{});
    store(out.barycentric, row, Vec3f{});
    store(out.shape_id, row, -1);
    store(out.local_prim_id, row, -1);
    store(out.global_prim_id, row, -1);
    store(out.shading_normal, row, Vec3f{});
    store(out.uv, row, Vec2f{});
  }
};

}  // namespace shardwise
