#pragma once
// A scene on the host: meshes, instances, materials and their lifecycle. No device, no acceleration
// structure: those are built from the flat world arrays that geometry() hands out.
//
//   SceneModel scene;
//   Mesh wall = ...;
//   wall.material = scene.add_material(make_itu_material("wall", "concrete"));
//   scene.add_mesh(wall);
//   scene.build();
//   scene.geometry().faces ...
//
// Ids: meshes and instances count 0, 1, 2, ... in the order they were added (shape_id). Faces are
// concatenated in that order: global_prim_id = face_offset[shape_id] + local_prim_id. Nothing is ever
// renumbered: a dropped face keeps its id and is never hit.
//
// Errors: a value out of range is a usage error, a call at the wrong time or on the wrong kind of shape a
// state error, defects under DefectPolicy::fail a data error. A call that throws has changed nothing.
//
// One thread at a time may use an object; const calls may run together.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shardwise/numeric/vec3.hpp"
#include "shardwise/scene/edges.hpp"
#include "shardwise/scene/material.hpp"
#include "shardwise/scene/mesh.hpp"

namespace shardwise {

/// What build() and sync() do with vertices that are not finite and with degenerate faces.
enum class DefectPolicy {
  drop,  ///< list them; the faces keep their ids and are never hit
  fail,  ///< throw a data error that names them
};

struct SceneModelOptions {
  DefectPolicy defects = DefectPolicy::drop;
  bool strict_materials = false;       ///< a frequency outside a class's range is an error, not a warning
  EdgeWeld weld = EdgeWeld::position;  ///< which vertices are one for edges
};

/// Something in the input that cannot be hit.
struct Defect {
  enum class Kind {
    non_finite_vertex,  ///< `index` is a vertex of the shape
    face_of_non_finite_vertex,
    repeated_index,  ///< a face that uses a vertex twice
    zero_area,       ///< |cross(e1, e2)| <= 1e-12 |e1| |e2|, in double
  };
  Kind kind;
  std::int32_t shape_id;
  std::int32_t index;  ///< of the vertex or face inside the shape

  friend bool operator==(const Defect&, const Defect&) = default;
};

/// An axis-aligned box; low > high where it is empty.
struct Bounds {
  Vec3f low{1, 1, 1}, high{0, 0, 0};
  bool empty() const { return low.x > high.x; }
  friend bool operator==(const Bounds&, const Bounds&) = default;
};

/// The flat world arrays of a built scene. F faces, V vertices, M shapes (meshes and instances).
struct SceneGeometry {
  std::vector<Vec3f> vertices;              ///< [V] world; to_world applied in double, rounded once
  std::vector<Face> faces;                  ///< [F] indices into `vertices`
  std::vector<Vec3f> face_normal;           ///< [F] unit, or zero for a face that cannot be hit
  std::vector<std::uint8_t> hittable;       ///< [F] 1, or 0 for a dropped face
  std::vector<std::int32_t> shape_id;       ///< [F]
  std::vector<std::int32_t> local_prim_id;  ///< [F]
  std::vector<std::int32_t> face_material;  ///< [F] index into SceneModel::materials(); -1: none
  std::vector<std::int32_t> vertex_offset;  ///< [M + 1]
  std::vector<std::int32_t> face_offset;    ///< [M + 1]
  Bounds bounds;                            ///< of the vertices of hittable faces
  float max_coordinate = 0;                 ///< the largest |coordinate| of those vertices
  float diagonal = 0;                       ///< of the bounds as they were at build(); sync() leaves it
  std::vector<Defect> defects;              ///< by shape; vertices before faces; ascending
};

/// What happened to a scene after a version that was seen before.
struct SceneChange {
  enum class Kind {
    none,
    edge_mask,   ///< the edge mask alone
    vertices,    ///< vertices, face_normal, hittable, bounds, max_coordinate, defects of `shapes` moved;
                 ///< perhaps the edge mask as well
    everything,  ///< a build(): ids, counts and materials may be others
  };
  Kind kind = Kind::none;
  std::vector<std::int32_t> shapes;  ///< for Kind::vertices, ascending
};

class SceneModel {
 public:
  explicit SceneModel(SceneModelOptions options = {}) : options_(options) {}
  const SceneModelOptions& options() const noexcept { return options_; }

  // ---- materials
  // -------------------------------------------------------------------------------------------------

  /// Adds a material and returns its index; one equal in every field is not added twice. Throws a usage error
  /// where another material has that name, or a constant is out of range.
  std::int32_t add_material(const Material& material);
  const std::vector<Material>& materials() const noexcept { return materials_; }

  /// Every material at `frequency_hz`, in table order (evaluate()); strict as the scene's options say.
  std::vector<MaterialAtFrequency> evaluate_materials(double frequency_hz,
                                                      std::vector<std::string>* warnings) const;

  /// What was subtracted from a file's x and y (metres, whole) so that a float's steps stay fine: the file's
  /// coordinates are the scene's plus this. Everything a scene holds and answers is in the scene's own. z is
  /// 0.
  Vec3d origin_shift() const noexcept { return origin_shift_; }
  /// Throws a usage error unless the components are finite. Moves nothing: importers say what they did.
  void set_origin_shift(Vec3d shift);

  // ---- shapes
  // ----------------------------------------------------------------------------------------------------

  /// Adds a mesh; its vertices may be updated later if `dynamic` or mesh.dynamic. The scene must be built
  /// again.
  std::int32_t add_mesh(Mesh mesh, bool dynamic = false);

  /// Adds a copy of a static mesh under a transform of its own: world vertices = to_world * the owner's
  /// object vertices (the owner's own to_world does not apply). An empty name becomes "OWNER#ID". `dynamic`:
  /// the transform may be set later. The scene must be built again.
  std::int32_t add_instance(std::int32_t owner_id, const Transform& to_world, bool dynamic = true,
                            std::string name = {});

  /// Queues a new transform of a dynamic instance until sync() or build(); the last one queued counts.
  void set_instance_transform(std::int32_t id, const Transform& to_world);

  /// Queues new object-space vertices of a dynamic mesh, copied now, until sync() or build(); the last queued
  /// count.
  void update_mesh_vertices(std::int32_t id, std::span<const Vec3f> vertices);

  // ---- lifecycle
  // -------------------------------------------------------------------------------------------------

  /// Computes the world arrays, consuming what is queued. Version 1 the first time, then one more.
  void build();

  /// Applies what is queued; ids and topology stay. The version rises only where a world vertex changed its
  /// bits. Returns whether it did. Where it throws, the queue is kept: queue better values, or build() after
  /// mending.
  bool sync();

  /// Which edges nearest_edge finds: one byte for each of edges(), 0 hides it. Takes effect at once; survives
  /// sync(), while build() shows all edges again. A mask like the one in force changes nothing; another one
  /// raises version and edge_version. Returns whether it did. Throws a state error while the scene is not
  /// built, a usage error for a wrong length. (On devices: Scene::set_edge_mask().)
  bool set_edge_mask(std::span<const std::uint8_t> mask);

  std::int64_t version() const noexcept { return version_; }
  /// Rises with the geometry of edges and with their mask.
  std::int64_t edge_version() const noexcept { return edge_version_; }
  /// Whether build() has run since the last add_mesh() or add_instance().
  bool is_ready() const noexcept { return ready_; }
  bool has_pending_updates() const noexcept {
    return !pending_transforms_.empty() || !pending_vertices_.empty();
  }

  /// Meshes and instances.
  std::int32_t num_meshes() const noexcept { return static_cast<std::int32_t>(shapes_.size()); }
  /// Distinct meshes: instances share their owner's.
  std::int32_t num_geometries() const noexcept { return static_cast<std::int32_t>(meshes_.size()); }

  /// What changed after `since_version` was the current one (0: before the first build).
  SceneChange changes_since(std::int64_t since_version) const;

  // ---- reading
  // ---------------------------------------------------------------------------------------------------

  /// The world arrays. Throws a state error while the scene is not built or has pending updates. The
  /// reference stays valid until the next build() or sync().
  const SceneGeometry& geometry() const;

  /// The edges, by position (edges.hpp). Made on the first call after a build(); ids and records do not
  /// change until the next one. Throws a state error while the scene is not built. The reference stays valid
  /// until the next build().
  const EdgeTable& edges() const;
  /// The mask in force, one byte an edge; empty where all are shown.
  const std::vector<std::uint8_t>& edge_mask() const noexcept { return edge_mask_; }
  /// Classes of vertices that were in one place at build() and no longer are. State errors as geometry().
  std::int64_t drifted_edge_classes() const;

  const std::string& shape_name(std::int32_t id) const { return shape(id).name; }
  bool is_instance(std::int32_t id) const { return shape(id).is_instance; }
  /// The mesh whose topology a shape has: itself, or an instance's owner.
  std::int32_t owner_of(std::int32_t id) const { return shape(id).owner; }
  /// Whether a mesh's vertices, or an instance's transform, may change.
  bool is_dynamic(std::int32_t id) const { return shape(id).dynamic; }
  /// The transform in force; queued ones are not in force yet.
  const Transform& to_world(std::int32_t id) const { return shape(id).to_world; }
  /// The mesh of a shape, an instance's owner included; its vertices are those in force.
  const Mesh& mesh(std::int32_t id) const { return meshes_[static_cast<std::size_t>(shape(id).geometry)]; }

  /// "shape 'wall' (id 3), face 17: zero area".
  std::string describe(const Defect& defect) const;

 private:
  struct Shape {
    std::string name;
    Transform to_world;
    std::int32_t owner = -1;     // shape id
    std::int32_t geometry = -1;  // index into meshes_
    bool is_instance = false;
    bool dynamic = false;
    std::int64_t changed_version = 0;  // the version in which its world vertices last changed
  };

  const Shape& shape(std::int32_t id) const;
  const Shape& checked_shape(std::int32_t id, const char* op) const;
  void fail_on(const std::vector<Defect>& defects, const char* op) const;
  const std::vector<Vec3f>& vertices_after_sync(std::int32_t id) const;
  const Transform& transform_after_sync(std::int32_t id) const;
  void apply_pending(bool remember_built);
  EdgeTable make_edges() const;

  /// What decides the edges of a dynamic mesh, as it was at build().
  struct BuiltMesh {
    std::vector<Vec3f> vertices;  // object space
    std::vector<std::uint8_t> hittable;
  };

  SceneModelOptions options_;
  Vec3d origin_shift_;
  std::vector<Material> materials_;
  std::vector<Mesh> meshes_;
  std::vector<Shape> shapes_;
  std::map<std::int32_t, Transform> pending_transforms_;
  std::map<std::int32_t, std::vector<Vec3f>> pending_vertices_;
  SceneGeometry geometry_;
  bool ready_ = false;
  std::int64_t version_ = 0;
  std::int64_t edge_version_ = 0;
  std::int64_t built_version_ = 0;  // the version of the last build()
  LazyShared<EdgeTable> edges_;
  std::map<std::int32_t, BuiltMesh> built_meshes_;  // of dynamic meshes that have changed since
  std::vector<std::uint8_t> edge_mask_;             // empty: all ones
  std::int64_t geometry_version_ = 0;               // the version in which a vertex last changed
};

}  // namespace shardwise
