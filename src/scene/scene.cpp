#include "shardwise/scene/scene.hpp"

#include <fmt/format.h>

#include <utility>

#include "dispatch/row_dispatcher.hpp"
#include "runtime/warm_up.hpp"
#include "scene/bvh8_builder.hpp"
#include "scene/edge_bvh.hpp"
#include "scene/face_data.hpp"
#include "scene/replica.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

#if SHARDWISE_WITH_EMBREE
constexpr bool has_embree = true;
#else
constexpr bool has_embree = false;
#endif

}  // namespace

Scene::Scene(DeviceSet devices, SceneModel model, SceneOptions options)
    : options_(options),
      model_(std::move(model)),
      executor_(std::make_unique<Executor>(std::move(devices))),
      rows_(std::make_unique<RowDispatcher>(*executor_)) {
  if (options_.tracer == TracerChoice::embree && !has_embree)
    throw_usage(
        "scene: the tracer 'embree' is not built in; use 'bvh', or install libembree-dev and configure "
        "again");
  for (int d = 0; d < this->devices().size(); ++d) {
    Device& device = this->devices()[d];
    const bool use_embree =
        has_embree && device.kind() != PlatformKind::cuda && options_.tracer != TracerChoice::bvh;
    replicas_.push_back(std::make_unique<Replica>(
        device, *executor_->default_context().streams[static_cast<std::size_t>(d)], use_embree));
  }
}

Scene::~Scene() = default;
Scene::Scene(Scene&&) noexcept = default;

Scene& Scene::operator=(Scene&& other) noexcept {
  if (this == &other) return *this;
  // What we hold is on the executor's streams: it goes first.
  replicas_.clear();
  options_ = other.options_;
  model_ = std::move(other.model_);
  rows_ = std::move(other.rows_);
  executor_ = std::move(other.executor_);
  replicas_ = std::move(other.replicas_);
  bvh_ = std::move(other.bvh_);
  bvh_version_ = other.bvh_version_;
  has_face_data_ = other.has_face_data_;
  edge_bvh_ = std::move(other.edge_bvh_);
  poison_ = std::move(other.poison_);
  failing_replica_ = other.failing_replica_;
  return *this;
}

void Scene::build() {
  // What poisoned it may have left work that nothing orders before ours.
  if (is_poisoned()) executor_->drain();
  rows_->wait_for_foreign_calls();
  model_.build();
  const SceneGeometry& geometry = model_.geometry();
  bvh_ = std::make_unique<Bvh8>(build_bvh8(geometry.vertices, geometry.faces, geometry.hittable));
  bvh_version_ = model_.version();
  poison_.clear();
  rows_->clear_lost_exit();
  edge_bvh_.reset();
  for (const auto& replica : replicas_) replica->drop_edges();
  for (int d = 0; d < devices().size(); ++d)
    if (!has_left(d)) warm_up(*executor_->default_context().streams[static_cast<std::size_t>(d)]);
  broadcast("build");
}

bool Scene::sync() {
  require_sound("sync");
  if (!bvh_) throw_state("sync: the scene is not built; call build() first");
  model_.sync();
  // The model may have been synchronised or built without us: what counts is what the replicas have.
  const SceneChange change = model_.changes_since(bvh_version_);
  if (change.kind == SceneChange::Kind::none) return false;
  rows_->wait_for_foreign_calls();
  if (change.kind == SceneChange::Kind::edge_mask) {
    broadcast_edge_mask();
    return true;
  }
  const SceneGeometry& geometry = model_.geometry();
  if (change.kind == SceneChange::Kind::vertices) {
    refit_bvh8(*bvh_, geometry.vertices, geometry.faces, geometry.hittable);
    if (edge_bvh_) refit_edge_bvh(*edge_bvh_, model_.edges(), geometry, model_.edge_mask());
  } else {
    *bvh_ = build_bvh8(geometry.vertices, geometry.faces, geometry.hittable);
    edge_bvh_.reset();
    for (const auto& replica : replicas_) replica->drop_edges();
  }
  bvh_version_ = model_.version();
  broadcast("sync");
  return true;
}

bool Scene::set_edge_mask(std::span<const std::uint8_t> mask) {
  require_sound("set_edge_mask");
  if (!bvh_) throw_state("set_edge_mask: the scene is not built; call build() first");
  if (!model_.set_edge_mask(mask)) return false;
  // Where the model has also moved without us, the replicas wait for sync() with both.
  if (model_.changes_since(bvh_version_).kind == SceneChange::Kind::edge_mask) broadcast_edge_mask();
  return true;
}

void Scene::broadcast_edge_mask() {
  bvh_version_ = model_.version();
  if (edge_bvh_) {
    rows_->wait_for_foreign_calls();
    mask_edge_bvh(*edge_bvh_, model_.edge_mask());
    run_on_replicas("set_edge_mask", [&](Graph& graph) {
      for (int d = 0; d < devices().size(); ++d) {
        if (has_left(d)) continue;
        fail_if_asked(d);
        replicas_[static_cast<std::size_t>(d)]->upload_edges(graph, d, *edge_bvh_);
      }
    });
  }
  for (const auto& replica : replicas_) replica->set_version(bvh_version_);
}

void Scene::fail_if_asked(int device) {
  if (failing_replica_ != device) return;
  failing_replica_ = -1;
  throw Error(ErrorClass::device, devices()[device].name() + ": failed by a test");
}

void Scene::broadcast(const char* step) {
  // Before the first replica changes: this may throw, and is read until the copies have run.
  const FaceArrays faces = has_face_data_ ? make_face_arrays(model_) : FaceArrays{};
  run_on_replicas(step, [&](Graph& graph) {
    for (int d = 0; d < devices().size(); ++d) {
      if (has_left(d)) continue;
      fail_if_asked(d);
      Replica& replica = *replicas_[static_cast<std::size_t>(d)];
      replica.upload(graph, d, *bvh_, model_.geometry(), model_.version());
      if (has_face_data_) replica.upload_faces(graph, d, faces);
      if (edge_bvh_) replica.upload_edges(graph, d, *edge_bvh_);
    }
  });
}

void Scene::require_face_data(const std::string& op) {
  require_ready(op);
  if (has_face_data_) return;
  const FaceArrays faces = make_face_arrays(model_);
  run_on_replicas("the upload of face data", [&](Graph& graph) {
    for (int d = 0; d < devices().size(); ++d)
      if (!has_left(d)) replicas_[static_cast<std::size_t>(d)]->upload_faces(graph, d, faces);
  });
  has_face_data_ = true;
}

void Scene::require_edges(const std::string& op) {
  require_ready(op);
  if (edge_bvh_) return;
  auto bvh = std::make_unique<EdgeBvh>(build_edge_bvh(model_.edges(), model_.geometry(), model_.edge_mask()));
  run_on_replicas("the upload of edges", [&](Graph& graph) {
    for (int d = 0; d < devices().size(); ++d) {
      if (has_left(d)) continue;
      fail_if_asked(d);
      replicas_[static_cast<std::size_t>(d)]->upload_edges(graph, d, *bvh);
    }
  });
  edge_bvh_ = std::move(bvh);
}

void Scene::run_on_replicas(const char* step, const std::function<void(Graph&)>& fill) {
  try {
    Graph graph;
    fill(graph);
    executor_->run(std::move(graph)).wait();
  } catch (const std::exception& error) {
    poison(step, error.what());
    throw;
  } catch (...) {
    poison(step, "an unknown error");
    throw;
  }
}

bool Scene::has_left(int device) const {
  return executor_->retired()[static_cast<std::size_t>(device)];
}

void Scene::poison(const std::string& step, const std::string& error) {
  if (poison_.empty())
    poison_ = fmt::format(
        "{} failed ({}), so replicas and results may differ; call build() to repair the scene", step, error);
}

bool Scene::is_poisoned() const {
  return !poison_.empty() || !rows_->lost_exit().empty();
}

void Scene::require_sound(const std::string& op) const {
  if (!poison_.empty()) throw Error(ErrorClass::poisoned, op + ": " + poison_);
  if (!rows_->lost_exit().empty())
    throw Error(
        ErrorClass::poisoned,
        fmt::format(
            "{}: the callers' streams could not be made to wait for an earlier call ({}); call build() "
            "to repair the scene",
            op, rows_->lost_exit()));
}

void Scene::require_ready(const std::string& op) const {
  require_sound(op);
  if (!model_.is_ready() || !bvh_) throw_state(op + ": the scene is not built; call build() first");
  if (model_.has_pending_updates()) throw_state(op + ": the scene has pending updates; call sync() first");
  for (int d = 0; d < devices().size(); ++d) {
    if (has_left(d)) continue;
    const std::int64_t version = replica(d).version();
    if (version != model_.version())
      throw_state(fmt::format(
          "{}: the replica on {} is at version {}, the model at {}; call sync() or build() on the Scene, "
          "not on its model",
          op, devices()[d].name(), version, model_.version()));
  }
}

std::vector<std::pair<std::string, std::uint64_t>> Scene::scene_bytes(int device) const {
  auto bytes = replica(device).bytes();
  const std::uint64_t counters = rows_->kept_bytes(device);
  if (counters > 0) bytes.emplace_back("row counters", counters);
  return bytes;
}

std::string Scene::tracer_name(int device) const {
  return replica(device).embree() ? "embree" : "bvh8";
}

}  // namespace shardwise
