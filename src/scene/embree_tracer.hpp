#pragma once
// Embree as the host's faster tracer: it proposes candidates, the shared formula of triangle_kernel.hpp ranks
// them.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "scene/ray_batch.hpp"
#include "scene/scene_view.hpp"

namespace shardwise {

/// An Embree device and one scene over the triangle records of a host scene. Move-only; moved-from it may
/// only be destroyed or assigned to. Building and update() run on the calling thread and in its TBB arena;
/// afterwards any number of threads may trace.
class EmbreeScene {
 public:
  /// `scene` lies in host memory; its triangle records are used in place, so they must outlive this object.
  /// Throws Error(memory) where memory runs out
  /// and Error(internal) for what else Embree refuses.
  explicit EmbreeScene(const SceneView& scene);
  EmbreeScene(EmbreeScene&&) noexcept;
  EmbreeScene& operator=(EmbreeScene&&) noexcept;
  ~EmbreeScene();

  /// After a refit or a rebuild: reads the triangle records of `scene` again, wherever they lie now.
  void update(const SceneView& scene);

  /// What Embree holds at the moment, bytes; the triangle records are not counted.
  std::size_t memory_bytes() const;

  /// The RTCScene. Its one geometry has id 0 and primID = record.
  void* native() const { return native_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  void* native_ = nullptr;
};

struct CandidateQuery;

/// Same contract as BvhTracer, and the same hits but for rays that graze a border within rounding: Embree's
/// edge test is not ours, so it may fail to propose a triangle that we would accept. Where it is seen to
/// disagree with the shared formula the BVH decides. Copy one per thread.
struct EmbreeTracer {
  SceneView scene;
  const EmbreeScene* embree = nullptr;
  std::uint64_t* fallbacks = nullptr;  ///< where set: counts rays that the BVH decided

  Hit closest(Vec3f o, Vec3f d, float t_min, float t_max) const;

  /// closest() of every ray, the same bits, faster: the arithmetic around Embree is done for all rays at
  /// once.
  void closest(const RayBatch& rays, int count, float t_min, HitBatch& hits) const;

 private:
  Hit ranked(const CandidateQuery& query, Vec3f o, Vec3f d, float t_min, float t_max) const;
  Hit decided_by_bvh(Vec3f o, Vec3f d, float t_min, float t_max) const;
};

}  // namespace shardwise
