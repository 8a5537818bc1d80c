#include "scene/replica.hpp"

#include <utility>

#include "scene/bvh8_builder.hpp"
#include "scene/edge_bvh.hpp"
#include "scene/face_data.hpp"
#include "shardwise/runtime/copy.hpp"

#if SHARDWISE_WITH_EMBREE
#include "scene/embree_tracer.hpp"
#else
namespace shardwise {
class EmbreeScene {};
}  // namespace shardwise
#endif

namespace shardwise {

Replica::Replica(Device& device, Stream& stream, bool use_embree)
    : device_(device), stream_(stream), use_embree_(use_embree), resource_(next_resource_id()) {}

Replica::~Replica() {
  if (embree_) device_.memory(MemoryUse::scene).subtract(embree_bytes_);
}

Access Replica::reads() const {
  Access access;
  access.resource = resource_;
  access.length = 1;
  access.mode = AccessMode::read;
  return access;
}

namespace {

/// Makes `target` as large as `source` and adds the copy.
template <class T>
void add_upload(Graph& graph, int device_index, Stream& stream, Buffer<T>& target,
                const std::vector<T>& source, const char* name, const Access& replica_write) {
  if (target.size() != source.size()) target = {};
  if (target.size() == 0 && !source.empty())
    target = Buffer<T>(stream, source.size(), name, MemoryUse::scene);
  graph.add(device_index, StreamRole::copy_in,
            copy_operation(std::string("upload ") + name, target.data(), source.data(),
                           source.size() * sizeof(T), {target.writes(), replica_write}));
}

}  // namespace

void Replica::upload(Graph& graph, int device_index, const Bvh8& bvh, const SceneGeometry& geometry,
                     std::int64_t version) {
  Access whole = reads();
  whole.mode = AccessMode::write;
  add_upload(graph, device_index, stream_, nodes_, bvh.nodes, "nodes", whole);
  add_upload(graph, device_index, stream_, triangles_, bvh.triangles, "triangles", whole);
  add_upload(graph, device_index, stream_, record_of_prim_, bvh.record_of_prim, "record_of_prim", whole);
  add_upload(graph, device_index, stream_, face_material_, geometry.face_material, "face_material", whole);

  view_.nodes = nodes_.data();
  view_.triangles = triangles_.data();
  view_.record_of_prim = record_of_prim_.data();
  view_.face_material = face_material_.data();
  view_.node_count = static_cast<std::uint32_t>(bvh.nodes.size());
  view_.triangle_count = static_cast<std::uint32_t>(bvh.triangles.size());
  view_.face_count = static_cast<std::uint32_t>(geometry.faces.size());
  view_.max_coordinate = bvh.max_coordinate;
  view_.diagonal = geometry.diagonal;

#if SHARDWISE_WITH_EMBREE
  if (use_embree_) {
    Operation build;
    build.name = "build Embree scene";
    build.kind = OperationKind::host;
    build.accesses = {whole};
    // As it is now: a later upload changes view_ while this one waits.
    build.body = [this, view = view_](LaunchContext& context) {
      device_.memory(MemoryUse::scene).subtract(std::exchange(embree_bytes_, 0));
      context.execute([&] {
        if (embree_)
          embree_->update(view);
        else
          embree_ = std::make_unique<EmbreeScene>(view);
      });
      embree_bytes_ = embree_->memory_bytes();
      device_.memory(MemoryUse::scene).add(embree_bytes_);
    };
    graph.add(device_index, StreamRole::compute, std::move(build));
  }
#endif
  version_ = version;
}

void Replica::upload_faces(Graph& graph, int device_index, const FaceArrays& faces) {
  Access whole = reads();
  whole.mode = AccessMode::write;
  add_upload(graph, device_index, stream_, shape_of_face_, faces.shape_of_face, "shape_of_face", whole);
  add_upload(graph, device_index, stream_, shapes_, faces.shapes, "shapes", whole);
  add_upload(graph, device_index, stream_, faces_, faces.faces, "faces", whole);
  add_upload(graph, device_index, stream_, vertex_normals_, faces.vertex_normals, "vertex_normals", whole);
  add_upload(graph, device_index, stream_, face_uv_, faces.face_uv, "face_uv", whole);
  add_upload(graph, device_index, stream_, uv_, faces.uv, "uv", whole);
  face_view_ = {shape_of_face_.data(),  shapes_.data(),  faces_.data(),
                vertex_normals_.data(), face_uv_.data(), uv_.data()};
}

void Replica::upload_edges(Graph& graph, int device_index, const EdgeBvh& bvh) {
  Access whole = reads();
  whole.mode = AccessMode::write;
  add_upload(graph, device_index, stream_, edge_nodes_, bvh.nodes, "edge_nodes", whole);
  add_upload(graph, device_index, stream_, edge_segments_, bvh.segments, "edge_segments", whole);
  add_upload(graph, device_index, stream_, edge_info_, bvh.info, "edge_info", whole);
  edge_view_ = view_of(bvh);
  edge_view_.nodes = edge_nodes_.data();
  edge_view_.segments = edge_segments_.data();
  edge_view_.info = edge_info_.data();
}

void Replica::drop_edges() {
  edge_nodes_ = {};
  edge_segments_ = {};
  edge_info_ = {};
  edge_view_ = {};
}

std::vector<std::pair<std::string, std::uint64_t>> Replica::bytes() const {
  std::vector<std::pair<std::string, std::uint64_t>> result = {{"nodes", nodes_.bytes()},
                                                               {"triangles", triangles_.bytes()},
                                                               {"record_of_prim", record_of_prim_.bytes()},
                                                               {"face_material", face_material_.bytes()}};
  const std::uint64_t face_data = shape_of_face_.bytes() + shapes_.bytes() + faces_.bytes() +
                                  vertex_normals_.bytes() + face_uv_.bytes() + uv_.bytes();
  if (face_data > 0) result.emplace_back("face_data", face_data);
  const std::uint64_t edges = edge_nodes_.bytes() + edge_segments_.bytes() + edge_info_.bytes();
  if (edges > 0) result.emplace_back("edges", edges);
  if (embree_) result.emplace_back("embree", embree_bytes_);
  return result;
}

}  // namespace shardwise
