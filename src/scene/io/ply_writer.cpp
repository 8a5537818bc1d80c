#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

/// Appends values in one of the three encodings; in ascii the shortest text that reads back to the same bits.
class Emitter {
 public:
  explicit Emitter(PlyEncoding encoding) : encoding_(encoding) {}

  template <class T>
  void put(T value) {
    if (encoding_ == PlyEncoding::ascii) {
      if (!line_begins_) out_ += ' ';
      line_begins_ = false;
      fmt::format_to(std::back_inserter(out_), "{}", value);
      return;
    }
    char buffer[sizeof(T)];
    std::memcpy(buffer, &value, sizeof(T));
    const bool big = encoding_ == PlyEncoding::binary_big_endian;
    if (big != (std::endian::native == std::endian::big)) std::reverse(buffer, buffer + sizeof(T));
    out_.append(buffer, sizeof(T));
  }
  void end_row() {
    if (encoding_ == PlyEncoding::ascii) out_ += '\n';
    line_begins_ = true;
  }
  std::string& out() { return out_; }

 private:
  PlyEncoding encoding_;
  std::string out_;
  bool line_begins_ = true;
};

const char* name_of(PlyEncoding encoding) {
  switch (encoding) {
    case PlyEncoding::ascii:
      return "ascii";
    case PlyEncoding::binary_little_endian:
      return "binary_little_endian";
    case PlyEncoding::binary_big_endian:
      return "binary_big_endian";
  }
  return "";
}

}  // namespace

std::string format_ply(const Mesh& mesh, PlyEncoding encoding) {
  validate_mesh(mesh, "write_ply");
  const bool normals = !mesh.vertex_normals.empty(), uv = !mesh.uv.empty();
  if (uv && (mesh.face_uv != mesh.faces || mesh.uv.size() != mesh.vertices.size())) {
    throw_usage(fmt::format(
        "write_ply: uv of mesh '{}' must be per vertex (face_uv == faces); PLY holds no other", mesh.name));
  }
  Emitter emitter(encoding);
  std::string& out = emitter.out();
  out = fmt::format("ply\nformat {} 1.0\nelement vertex {}\n", name_of(encoding), mesh.vertices.size());
  out += "property float x\nproperty float y\nproperty float z\n";
  if (normals) out += "property float nx\nproperty float ny\nproperty float nz\n";
  if (uv) out += "property float u\nproperty float v\n";
  out +=
      fmt::format("element face {}\nproperty list uchar int vertex_indices\nend_header\n", mesh.faces.size());
  const auto put_vector = [&](Vec3f p) {
    emitter.put(p.x);
    emitter.put(p.y);
    emitter.put(p.z);
  };
  for (std::size_t i = 0; i < mesh.vertices.size(); ++i) {
    put_vector(mesh.vertices[i]);
    if (normals) put_vector(mesh.vertex_normals[i]);
    if (uv) {
      emitter.put(mesh.uv[i].x);
      emitter.put(mesh.uv[i].y);
    }
    emitter.end_row();
  }
  for (const Face& face : mesh.faces) {
    emitter.put(std::uint8_t{3});
    for (const std::int32_t index : face) emitter.put(index);
    emitter.end_row();
  }
  return std::move(out);
}

void write_ply(const std::filesystem::path& path, const Mesh& mesh, PlyEncoding encoding) {
  write_whole_file(path, format_ply(mesh, encoding));
}

}  // namespace shardwise
