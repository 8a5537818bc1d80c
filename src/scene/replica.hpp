#pragma once
// One device's full copy of a scene: the arrays that kernels read, and Embree's scene on the host.

#include <memory>

#include "scene/edge_view.hpp"
#include "scene/face_view.hpp"
#include "scene/scene_view.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/scene/scene.hpp"

namespace shardwise {

struct Bvh8;
struct EdgeBvh;
struct FaceArrays;
class EmbreeScene;

class Replica {
 public:
  Replica(Device& device, Stream& stream, bool use_embree);
  ~Replica();

  /// Adds to `graph` the copies that bring this replica to the tree and materials given, and builds Embree's
  /// scene where it is used. The arguments live until the graph has run.
  void upload(Graph& graph, int device_index, const Bvh8& bvh, const SceneGeometry& geometry,
              std::int64_t version);

  /// Adds the copies of the faces' data, which belong to this replica's version from then on. `faces` lives
  /// until the graph has run.
  void upload_faces(Graph& graph, int device_index, const FaceArrays& faces);

  /// Adds the copies of the tree over edges. `bvh` lives until the graph has run.
  void upload_edges(Graph& graph, int device_index, const EdgeBvh& bvh);
  void drop_edges();
  /// After a change that the graphs of this replica have brought to it, or that needs none.
  void set_version(std::int64_t version) { version_ = version; }

  const SceneView& view() const { return view_; }
  /// Only after upload_faces().
  const FaceView& faces() const { return face_view_; }
  /// Only after upload_edges().
  const EdgeView& edges() const { return edge_view_; }
  /// Null where this device uses the BVH.
  const EmbreeScene* embree() const { return embree_.get(); }
  std::int64_t version() const { return version_; }
  /// The replica as one resource: kernels that trace declare this.
  Access reads() const;
  std::vector<std::pair<std::string, std::uint64_t>> bytes() const;

 private:
  Device& device_;
  Stream& stream_;
  bool use_embree_;
  Buffer<Bvh8Node> nodes_;
  Buffer<BvhTriangle> triangles_;
  Buffer<std::uint32_t> record_of_prim_;
  Buffer<std::int32_t> face_material_;
  Buffer<std::int32_t> shape_of_face_;
  Buffer<ShapeFaces> shapes_;
  Buffer<Face> faces_;
  Buffer<Vec3f> vertex_normals_;
  Buffer<Face> face_uv_;
  Buffer<Vec2f> uv_;
  Buffer<EdgeBvhNode> edge_nodes_;
  Buffer<EdgeSegment> edge_segments_;
  Buffer<EdgeInfo> edge_info_;
  std::unique_ptr<EmbreeScene> embree_;
  std::uint64_t embree_bytes_ = 0;
  ResourceId resource_;
  SceneView view_;
  FaceView face_view_;
  EdgeView edge_view_;
  std::int64_t version_ = 0;
};

}  // namespace shardwise
