#pragma once
// On hosts with Embree: it answers closest(). Where a face must be left out, or the next one found, or only
// the shared formula may say that nothing blocks, the BVH answers as under `strict`: Embree may fail to
// propose a triangle that the formula accepts, and a second opinion would cost what it saves.

#include "rays/ray_queries_kernel.hpp"
#include "scene/embree_tracer.hpp"

namespace shardwise {

struct EmbreeQueries : BvhQueries {
  const EmbreeScene* embree = nullptr;

  EmbreeQueries(const SceneView& view, const EmbreeScene* proposals) : BvhQueries{view}, embree(proposals) {}
  Hit closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
    return EmbreeTracer{scene, embree}.closest(o, d, t_min, t_max);
  }
};

}  // namespace shardwise
