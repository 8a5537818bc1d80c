#include "shardwise/scene/scene.hpp"

#include <fmt/format.h>

#include <utility>

#include "scene/bvh8_builder.hpp"
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
    : options_(options), model_(std::move(model)), executor_(std::make_unique<Executor>(std::move(devices))) {
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
  executor_ = std::move(other.executor_);
  replicas_ = std::move(other.replicas_);
  bvh_ = std::move(other.bvh_);
  bvh_version_ = other.bvh_version_;
  poison_ = std::move(other.poison_);
  failing_replica_ = other.failing_replica_;
  return *this;
}

void Scene::build() {
  // What poisoned it may have left work that nothing orders before ours.
  if (is_poisoned()) executor_->drain();
  model_.build();
  const SceneGeometry& geometry = model_.geometry();
  bvh_ = std::make_unique<Bvh8>(build_bvh8(geometry.vertices, geometry.faces, geometry.hittable));
  bvh_version_ = model_.version();
  poison_.clear();
  broadcast("build");
}

bool Scene::sync() {
  if (is_poisoned()) throw Error(ErrorClass::poisoned, "sync: " + poison_);
  if (!bvh_) throw_state("sync: the scene is not built; call build() first");
  model_.sync();
  // The model may have been synchronised or built without us: what counts is what the replicas have.
  const SceneChange change = model_.changes_since(bvh_version_);
  if (change.kind == SceneChange::Kind::none) return false;
  const SceneGeometry& geometry = model_.geometry();
  if (change.kind == SceneChange::Kind::vertices)
    refit_bvh8(*bvh_, geometry.vertices, geometry.faces, geometry.hittable);
  else
    *bvh_ = build_bvh8(geometry.vertices, geometry.faces, geometry.hittable);
  bvh_version_ = model_.version();
  broadcast("sync");
  return true;
}

void Scene::broadcast(const char* step) {
  try {
    Graph graph;
    for (int d = 0; d < devices().size(); ++d) {
      if (std::exchange(failing_replica_, failing_replica_ == d ? -1 : failing_replica_) == d)
        throw Error(ErrorClass::device, devices()[d].name() + ": failed by a test");
      replicas_[static_cast<std::size_t>(d)]->upload(graph, d, *bvh_, model_.geometry(), model_.version());
    }
    executor_->run(std::move(graph)).wait();
  } catch (const std::exception& error) {
    poison(step, error.what());
    throw;
  } catch (...) {
    poison(step, "an unknown error");
    throw;
  }
}

void Scene::poison(const std::string& step, const std::string& error) {
  if (!is_poisoned())
    poison_ = fmt::format(
        "{} failed ({}), so replicas and results may differ; call build() to repair the scene", step, error);
}

void Scene::require_ready(const std::string& op) const {
  if (is_poisoned()) throw Error(ErrorClass::poisoned, op + ": " + poison_);
  if (!model_.is_ready() || !bvh_) throw_state(op + ": the scene is not built; call build() first");
  if (model_.has_pending_updates()) throw_state(op + ": the scene has pending updates; call sync() first");
  for (int d = 0; d < devices().size(); ++d) {
    const std::int64_t version = replica(d).version();
    if (version != model_.version())
      throw_state(fmt::format(
          "{}: the replica on {} is at version {}, the model at {}; call sync() or build() on the Scene, "
          "not on its model",
          op, devices()[d].name(), version, model_.version()));
  }
}

std::vector<std::pair<std::string, std::uint64_t>> Scene::scene_bytes(int device) const {
  return replica(device).bytes();
}

std::string Scene::tracer_name(int device) const {
  return replica(device).embree() ? "embree" : "bvh8";
}

}  // namespace shardwise
