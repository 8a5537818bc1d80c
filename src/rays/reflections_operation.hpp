#pragma once

#include "rays/traced_scene.hpp"
#include "shardwise/rays/reflections.hpp"

namespace shardwise {

struct ReflectionRequest {
  int max_bounces = 1;
  ReflectionFields fields = ReflectionFields::full;
  bool tmax = false, active = false;
};

/// Up to max_bounces specular reflections of each ray; flagged rows: none.
RowOperation reflections_operation(Scene& scene, const ReflectionRequest& request);

}  // namespace shardwise
