#pragma once
// A scene on devices: the model on the host, and one full replica per device.
//
//   Scene scene(open_devices("host:2"), read_scene("munich.xml"));
//   scene.build();
//   CoverageResult map = coverage(scene, options).get();
//
// Mutations go to model(); build() or sync() broadcasts them to every replica. Everything is checked before
// the first replica changes. Where one replica fails after another has changed, the scene is poisoned: every
// call but build() refuses, naming the step that failed. A Scene belongs to one thread and outlives the calls
// made on it.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

class Replica;
class RowDispatcher;

/// Who answers "which primitive" on host and sim devices. CUDA devices always use the BVH.
enum class TracerChoice {
  automatic,  ///< Embree where it is built in, else the BVH
  bvh,        ///< shardwise's own 8-wide BVH on every device: the same winner everywhere (`strict`)
  embree,     ///< an error where it is not built in
};

struct SceneOptions {
  TracerChoice tracer = TracerChoice::automatic;
};

class Scene {
 public:
  Scene(DeviceSet devices, SceneModel model, SceneOptions options = {});
  ~Scene();
  Scene(Scene&&) noexcept;
  Scene& operator=(Scene&&) noexcept;

  /// Add meshes, queue updates; then build() or sync(). Read freely.
  SceneModel& model() { return model_; }
  const SceneModel& model() const { return model_; }

  /// Builds the model and every replica. Cures a poisoned scene.
  void build();
  /// Brings every replica to the model, with what it has queued. Returns whether anything changed.
  bool sync();

  /// Sets the edge mask of the model (SceneModel::set_edge_mask) and of every replica, now. Returns whether
  /// anything changed. Throws a state error where the scene is not built, a usage error for a wrong length.
  bool set_edge_mask(std::span<const std::uint8_t> mask);

  const DeviceSet& devices() const { return executor_->devices(); }
  const SceneOptions& options() const { return options_; }
  std::int64_t version() const { return model_.version(); }
  bool is_poisoned() const;
  /// Devices that failed in a call that went on without them (OnDeviceFailure::failover); calls and updates
  /// leave them out. One a device.
  const std::vector<bool>& retired() const { return executor_->retired(); }
  /// Bytes of each structure on a device: "nodes", "triangles", ...
  std::vector<std::pair<std::string, std::uint64_t>> scene_bytes(int device) const;
  /// embree, bvh8: what answers on this device.
  std::string tracer_name(int device) const;

  /// For operations: throws unless the scene is built, has nothing pending, is not poisoned and all replicas
  /// are at the model's version. `op` starts the message.
  void require_ready(const std::string& op) const;
  /// For operations that need the devices only: throws where the scene is poisoned.
  void require_sound(const std::string& op) const;
  /// For operations that need shapes, shading normals or texture coordinates of faces: makes every replica
  /// hold them, now and after later builds and syncs ("face_data" in scene_bytes()). The first call waits for
  /// the copies. Throws as require_ready(); a failed copy poisons the scene.
  void require_face_data(const std::string& op);
  /// For operations that look for edges: makes every replica hold the tree over them, which later syncs and
  /// masks keep up to date and a build() drops ("edges" in scene_bytes()). The first call waits for the
  /// copies. Throws as require_ready(); a failed copy poisons the scene.
  void require_edges(const std::string& op);
  Executor& executor() { return *executor_; }
  /// Runs calls on rows, and remembers what they cost.
  RowDispatcher& rows() { return *rows_; }
  const Replica& replica(int device) const { return *replicas_[static_cast<std::size_t>(device)]; }
  /// For operations: from now on every call but build() is refused, since `step` failed with `error` and
  /// replicas or what callers hold may be anything. The first one stays.
  void poison(const std::string& step, const std::string& error);
  /// For tests: the broadcast fails on this replica, once; -1: none.
  void fail_next_broadcast_on(int device) { failing_replica_ = device; }

 private:
  void broadcast(const char* step);
  void broadcast_edge_mask();
  void fail_if_asked(int device);
  bool has_left(int device) const;
  /// Runs the graph that `fill` makes; poisons the scene where that fails.
  void run_on_replicas(const char* step, const std::function<void(Graph&)>& fill);

  SceneOptions options_;
  SceneModel model_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<RowDispatcher> rows_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::unique_ptr<struct Bvh8> bvh_;
  std::int64_t bvh_version_ = 0;
  bool has_face_data_ = false;
  std::unique_ptr<struct EdgeBvh> edge_bvh_;  // null: nobody has asked since the last build
  std::string poison_;
  int failing_replica_ = -1;
};

}  // namespace shardwise
