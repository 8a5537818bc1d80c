#pragma once
// What the launches of one call trace: a device's replica, as it is when the call is made.

#include <vector>

#include "dispatch/row_operation.hpp"
#include "rays/ray_queries_kernel.hpp"
#include "runtime/for_each.hpp"
#include "scene/face_view.hpp"
#include "scene/replica.hpp"
#include "shardwise/scene/scene.hpp"

#if SHARDWISE_WITH_EMBREE
#include "rays/embree_queries.hpp"
#endif

namespace shardwise {

struct TracedScene {
  SceneView view;
  FaceView faces;  ///< empty unless the call needs face data
  const EmbreeScene* embree = nullptr;
};

/// One a device. `with_faces`: uploads face data first where the replicas do not hold it yet. Throws as
/// Scene::require_ready(); `op` starts the message.
std::vector<TracedScene> traced_scenes(Scene& scene, const std::string& op, bool with_faces);

/// RowOperation::reads of an operation that traces. The scene outlives the calls made on it.
std::function<Access(int device)> reads_of(const Scene& scene);

/// Rows a thread takes at a time: tens of microseconds, much more than taking them costs, and little of a
/// call, which ends with its last thread.
inline constexpr std::int64_t traced_row_grain = 256;

/// Runs make_body(queries) over the rows with the device's tracer. CUDA: for the BVH's body there is a
/// SW_INSTANTIATE_FOR_EACH in one of rays/*.cu.
template <class MakeBody>
void for_each_row(LaunchContext& context, const TracedScene& scene, std::int64_t count,
                  const MakeBody& make_body) {
#if SHARDWISE_WITH_EMBREE
  if (scene.embree) {  // never on CUDA
    const auto body = make_body(EmbreeQueries(scene.view, scene.embree));
    return context.parallel_for(count, traced_row_grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  }
#endif
  for_each(context, count, make_body(BvhQueries{scene.view}), traced_row_grain);
}

/// The same where the BVH answers on every device (visibility, penetration: see embree_queries.hpp).
template <class MakeBody>
void for_each_row_by_bvh(LaunchContext& context, const TracedScene& scene, std::int64_t count,
                         const MakeBody& make_body) {
  for_each(context, count, make_body(BvhQueries{scene.view}), traced_row_grain);
}

}  // namespace shardwise
