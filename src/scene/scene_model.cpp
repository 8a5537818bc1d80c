#include "shardwise/scene/scene_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "scene/edge_table.hpp"
#include "shardwise/runtime/error.hpp"
#include "world_geometry.hpp"

namespace shardwise {
namespace {

constexpr std::size_t kMaxListed = 20;  // defects that an error spells out

std::size_t at(std::int32_t id) {
  return static_cast<std::size_t>(id);
}

template <class T>
std::span<T> slice(std::vector<T>& values, const std::vector<std::int32_t>& offsets, std::int32_t id) {
  return std::span<T>(values).subspan(at(offsets[at(id)]), at(offsets[at(id) + 1] - offsets[at(id)]));
}

bool same_bits(std::span<const Vec3f> a, std::span<const Vec3f> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

std::int32_t SceneModel::add_material(const Material& material) {
  validate_material(material, "add_material");
  for (std::size_t i = 0; i < materials_.size(); ++i) {
    if (materials_[i].name != material.name) continue;
    if (materials_[i] == material) return static_cast<std::int32_t>(i);
    throw_usage(fmt::format("add_material: name must be unique (got '{}', which is another material already)",
                            material.name));
  }
  materials_.push_back(material);
  return static_cast<std::int32_t>(materials_.size()) - 1;
}

void SceneModel::set_origin_shift(Vec3d shift) {
  if (!is_finite(shift)) {
    throw_usage(fmt::format("set_origin_shift: the shift must be finite (got {}, {}, {})", shift.x, shift.y,
                            shift.z));
  }
  origin_shift_ = shift;
}

std::vector<MaterialAtFrequency> SceneModel::evaluate_materials(double frequency_hz,
                                                                std::vector<std::string>* warnings) const {
  std::vector<MaterialAtFrequency> result;
  for (const Material& material : materials_) {
    result.push_back(evaluate(material, frequency_hz, options_.strict_materials, warnings));
  }
  return result;
}

const SceneModel::Shape& SceneModel::shape(std::int32_t id) const {
  return checked_shape(id, "scene");
}

const SceneModel::Shape& SceneModel::checked_shape(std::int32_t id, const char* op) const {
  if (id < 0 || id >= num_meshes()) {
    throw_usage(fmt::format("{}: mesh or instance id must be in [0, {}) (got {})", op, num_meshes(), id));
  }
  return shapes_[at(id)];
}

std::int32_t SceneModel::add_mesh(Mesh mesh, bool dynamic) {
  validate_mesh(mesh, "add_mesh");
  if (mesh.material < -1 || mesh.material >= static_cast<std::int32_t>(materials_.size())) {
    throw_usage(fmt::format(
        "add_mesh: material must be -1 or in [0, {}) (got {}) in mesh '{}'; add_material() comes first",
        materials_.size(), mesh.material, mesh.name));
  }
  mesh.dynamic = mesh.dynamic || dynamic;
  const std::int32_t id = num_meshes();
  Shape shape;
  shape.name = mesh.name;
  shape.to_world = mesh.to_world;
  shape.owner = id;
  shape.geometry = num_geometries();
  shape.dynamic = mesh.dynamic;
  meshes_.push_back(std::move(mesh));
  shapes_.push_back(std::move(shape));
  ready_ = false;
  return id;
}

std::int32_t SceneModel::add_instance(std::int32_t owner_id, const Transform& to_world, bool dynamic,
                                      std::string name) {
  const Shape& owner = checked_shape(owner_id, "add_instance: instance owner");
  if (owner.is_instance) {
    throw_state(
        fmt::format("add_instance: the owner of an instance must be a mesh (got id {}, '{}', itself an "
                    "instance of {})",
                    owner_id, owner.name, owner.owner));
  }
  if (owner.dynamic) {
    throw_state(fmt::format(
        "add_instance: the owner of an instance must be static (got id {}, '{}', which is dynamic)", owner_id,
        owner.name));
  }
  validate_transform(to_world, "add_instance");
  const std::int32_t id = num_meshes();
  Shape shape;
  shape.name = name.empty() ? fmt::format("{}#{}", owner.name, id) : std::move(name);
  shape.to_world = to_world;
  shape.owner = owner_id;
  shape.geometry = owner.geometry;
  shape.is_instance = true;
  shape.dynamic = dynamic;
  shapes_.push_back(std::move(shape));
  ready_ = false;
  return id;
}

void SceneModel::set_instance_transform(std::int32_t id, const Transform& to_world) {
  const Shape& shape = checked_shape(id, "set_instance_transform");
  if (!shape.is_instance) {
    throw_state(fmt::format("set_instance_transform: id {} ('{}') is not an instance", id, shape.name));
  }
  if (!shape.dynamic) {
    throw_state(
        fmt::format("set_instance_transform: instance {} ('{}') is not dynamic; say so in add_instance()", id,
                    shape.name));
  }
  validate_transform(to_world, "set_instance_transform");
  pending_transforms_.insert_or_assign(id, to_world);
}

void SceneModel::update_mesh_vertices(std::int32_t id, std::span<const Vec3f> vertices) {
  const Shape& shape = checked_shape(id, "update_mesh_vertices");
  if (shape.is_instance) {
    throw_state(fmt::format(
        "update_mesh_vertices: id {} ('{}') is an instance; its vertices are its owner's ({}), set "
        "its transform instead",
        id, shape.name, shape.owner));
  }
  if (!shape.dynamic) {
    throw_state(fmt::format("update_mesh_vertices: mesh {} ('{}') is not dynamic; say so in add_mesh()", id,
                            shape.name));
  }
  const std::size_t expected = meshes_[at(shape.geometry)].vertices.size();
  if (vertices.size() != expected) {
    throw_usage(
        fmt::format("update_mesh_vertices: vertex count must stay unchanged, {} (got {}) for mesh {} ('{}')",
                    expected, vertices.size(), id, shape.name));
  }
  pending_vertices_.insert_or_assign(id, std::vector<Vec3f>(vertices.begin(), vertices.end()));
}

const std::vector<Vec3f>& SceneModel::vertices_after_sync(std::int32_t id) const {
  const auto found = pending_vertices_.find(id);
  return found != pending_vertices_.end() ? found->second : mesh(id).vertices;
}

const Transform& SceneModel::transform_after_sync(std::int32_t id) const {
  const auto found = pending_transforms_.find(id);
  return found != pending_transforms_.end() ? found->second : shape(id).to_world;
}

void SceneModel::apply_pending(bool remember_built) {
  for (auto& [id, vertices] : pending_vertices_) {
    std::vector<Vec3f>& current = meshes_[at(shapes_[at(id)].geometry)].vertices;
    current.swap(vertices);
    // Edges keep the classes of build(): remember what they come from until they are made.
    if (remember_built && !built_meshes_.contains(id)) {
      const auto hittable = slice(geometry_.hittable, geometry_.face_offset, id);
      built_meshes_[id] = {std::move(vertices), {hittable.begin(), hittable.end()}};
    }
  }
  for (const auto& [id, to_world] : pending_transforms_) shapes_[at(id)].to_world = to_world;
  pending_vertices_.clear();
  pending_transforms_.clear();
}

void SceneModel::build() {
  if (shapes_.empty())
    throw_state("build: a scene needs at least one mesh (got none); call add_mesh() first");
  SceneGeometry next;
  std::size_t vertex_count = 0, face_count = 0;
  constexpr std::size_t limit = std::numeric_limits<std::int32_t>::max();
  for (std::int32_t id = 0; id < num_meshes(); ++id) {
    next.vertex_offset.push_back(static_cast<std::int32_t>(vertex_count));
    next.face_offset.push_back(static_cast<std::int32_t>(face_count));
    vertex_count += mesh(id).vertices.size();
    face_count += mesh(id).faces.size();
    if (vertex_count > limit || face_count > limit) {
      throw_usage(fmt::format(
          "build: the sums of vertices and faces over all meshes must fit int32 (got {} and {} up "
          "to shape {} of {})",
          vertex_count, face_count, id, num_meshes()));
    }
  }
  next.vertex_offset.push_back(static_cast<std::int32_t>(vertex_count));
  next.face_offset.push_back(static_cast<std::int32_t>(face_count));
  next.vertices.resize(vertex_count);
  next.faces.reserve(face_count);
  next.shape_id.reserve(face_count);
  next.local_prim_id.reserve(face_count);
  next.face_material.reserve(face_count);
  next.face_normal.resize(face_count);
  next.hittable.resize(face_count);
  for (std::int32_t id = 0; id < num_meshes(); ++id) {
    const Mesh& source = mesh(id);
    const std::int32_t base = next.vertex_offset[at(id)];
    for (std::size_t i = 0; i < source.faces.size(); ++i) {
      const Face face = source.faces[i];
      next.faces.push_back({base + face[0], base + face[1], base + face[2]});
      next.local_prim_id.push_back(static_cast<std::int32_t>(i));
    }
    next.shape_id.insert(next.shape_id.end(), source.faces.size(), id);
    next.face_material.insert(next.face_material.end(), source.faces.size(), source.material);
    const auto world = slice(next.vertices, next.vertex_offset, id);
    transform_vertices(transform_after_sync(id), vertices_after_sync(id), world);
    classify_faces(id, world, source.faces, slice(next.face_normal, next.face_offset, id),
                   slice(next.hittable, next.face_offset, id), next.defects);
  }
  measure(next);
  next.diagonal = diagonal_of(next.bounds);
  fail_on(next.defects, "build");

  apply_pending(false);
  edges_.set(nullptr);
  built_meshes_.clear();
  edge_mask_.clear();
  geometry_ = std::move(next);
  ++version_;
  ++edge_version_;
  built_version_ = version_;
  geometry_version_ = version_;
  for (Shape& shape : shapes_) shape.changed_version = version_;
  ready_ = true;
}

bool SceneModel::sync() {
  if (!ready_) throw_state("sync: the scene is not built; call build() first");
  struct Update {
    std::int32_t id;
    std::vector<Vec3f> world;
    std::vector<Vec3f> face_normal;
    std::vector<std::uint8_t> hittable;
  };
  std::vector<Update> updates;
  std::vector<Defect> defects;  // of every shape, as they will be
  auto old = geometry_.defects.cbegin();
  for (std::int32_t id = 0; id < num_meshes(); ++id) {
    const auto old_begin = old;
    while (old != geometry_.defects.cend() && old->shape_id == id) ++old;
    if (pending_vertices_.contains(id) || pending_transforms_.contains(id)) {
      Update update{id, {}, {}, {}};
      update.world.resize(mesh(id).vertices.size());
      transform_vertices(transform_after_sync(id), vertices_after_sync(id), update.world);
      if (!same_bits(update.world, slice(geometry_.vertices, geometry_.vertex_offset, id))) {
        const std::size_t faces = mesh(id).faces.size();
        update.face_normal.resize(faces);
        update.hittable.resize(faces);
        classify_faces(id, update.world, mesh(id).faces, update.face_normal, update.hittable, defects);
        updates.push_back(std::move(update));
        continue;
      }
    }
    defects.insert(defects.end(), old_begin, old);
  }
  if (!updates.empty()) fail_on(defects, "sync");

  apply_pending(true);
  if (updates.empty()) return false;
  ++version_;
  ++edge_version_;
  geometry_version_ = version_;
  for (const Update& update : updates) {
    std::copy(update.world.begin(), update.world.end(),
              slice(geometry_.vertices, geometry_.vertex_offset, update.id).begin());
    std::copy(update.face_normal.begin(), update.face_normal.end(),
              slice(geometry_.face_normal, geometry_.face_offset, update.id).begin());
    std::copy(update.hittable.begin(), update.hittable.end(),
              slice(geometry_.hittable, geometry_.face_offset, update.id).begin());
    shapes_[at(update.id)].changed_version = version_;
  }
  geometry_.defects = std::move(defects);
  measure(geometry_);
  return true;
}

SceneChange SceneModel::changes_since(std::int64_t since_version) const {
  if (since_version < 0 || since_version > version_) {
    throw_usage(fmt::format("changes_since: version must be in [0, {}] (got {})", version_, since_version));
  }
  SceneChange change;
  if (since_version < built_version_) {
    change.kind = SceneChange::Kind::everything;
  } else if (since_version < version_ && since_version >= geometry_version_) {
    change.kind = SceneChange::Kind::edge_mask;
  } else if (since_version < version_) {
    change.kind = SceneChange::Kind::vertices;
    for (std::int32_t id = 0; id < num_meshes(); ++id) {
      if (shapes_[at(id)].changed_version > since_version) change.shapes.push_back(id);
    }
  }
  return change;
}

const SceneGeometry& SceneModel::geometry() const {
  if (!ready_) throw_state("scene is not built (not ready); call build() first");
  if (has_pending_updates()) {
    throw_state(fmt::format("scene has pending updates ({} transforms, {} meshes); call sync() first",
                            pending_transforms_.size(), pending_vertices_.size()));
  }
  return geometry_;
}

const EdgeTable& SceneModel::edges() const {
  if (!ready_) throw_state("edges: the scene is not built (not ready); call build() first");
  return edges_.get_or_make([this] { return make_edges(); });
}

EdgeTable SceneModel::make_edges() const {
  std::vector<EdgeShape> shapes;
  for (std::int32_t id = 0; id < num_meshes(); ++id) {
    const Shape& shape = shapes_[at(id)];
    // Static meshes, and with them the owners of instances, are where they were at build().
    const std::int32_t source = shape.owner;
    EdgeShape edges;
    edges.positions = std::span<const Vec3f>(geometry_.vertices)
                          .subspan(at(geometry_.vertex_offset[at(source)]), mesh(id).vertices.size());
    edges.hittable = std::span<const std::uint8_t>(geometry_.hittable)
                         .subspan(at(geometry_.face_offset[at(source)]), mesh(id).faces.size());
    edges.edges_enabled = mesh(id).edges_enabled;
    if (shape.is_instance || shape.dynamic) edges.weld_group = 1 + id;
    if (!shape.is_instance && shape.dynamic) {
      const auto built = built_meshes_.find(id);
      edges.positions = built == built_meshes_.end() ? mesh(id).vertices : built->second.vertices;
      if (built != built_meshes_.end()) edges.hittable = built->second.hittable;
    }
    shapes.push_back(edges);
  }
  return build_edge_table(geometry_, shapes, options_.weld);
}

bool SceneModel::set_edge_mask(std::span<const std::uint8_t> mask) {
  if (!ready_) throw_state("set_edge_mask: the scene is not built; call build() first");
  const std::size_t count = edges().edges.size();
  if (mask.size() != count) {
    throw_usage(fmt::format("set_edge_mask: mask must have one entry an edge: length {} (got {})", count,
                            mask.size()));
  }
  std::vector<std::uint8_t> next(count);
  bool all = true, same = true;
  for (std::size_t e = 0; e < count; ++e) {
    next[e] = mask[e] != 0;
    all = all && next[e];
    same = same && next[e] == (edge_mask_.empty() || edge_mask_[e]);
  }
  if (same) return false;
  if (all) next.clear();
  edge_mask_ = std::move(next);
  ++version_;
  ++edge_version_;
  return true;
}

std::int64_t SceneModel::drifted_edge_classes() const {
  return count_drifted_classes(edges(), geometry().vertices);
}

void SceneModel::fail_on(const std::vector<Defect>& defects, const char* op) const {
  if (options_.defects != DefectPolicy::fail || defects.empty()) return;
  std::string text = fmt::format(
      "{}: the scene has {} defects (policy fail; drop leaves such faces out): ", op, defects.size());
  for (std::size_t i = 0; i < std::min(defects.size(), kMaxListed); ++i) {
    if (i > 0) text += "; ";
    text += describe(defects[i]);
  }
  if (defects.size() > kMaxListed) text += fmt::format("; and {} more", defects.size() - kMaxListed);
  throw_data(text);
}

std::string SceneModel::describe(const Defect& defect) const {
  const char* element = "face";
  const char* what = "";
  switch (defect.kind) {
    case Defect::Kind::non_finite_vertex:
      element = "vertex";
      what = "not finite";
      break;
    case Defect::Kind::face_of_non_finite_vertex:
      what = "uses a vertex that is not finite";
      break;
    case Defect::Kind::repeated_index:
      what = "uses a vertex twice";
      break;
    case Defect::Kind::zero_area:
      what = "zero area";
      break;
  }
  return fmt::format("shape '{}' (id {}), {} {}: {}", shape(defect.shape_id).name, defect.shape_id, element,
                     defect.index, what);
}

}  // namespace shardwise
