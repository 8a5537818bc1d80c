#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "gltf_file.hpp"
#include "mesh_formats.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace gltf {
namespace {

/// Of all nodes together: nodes share meshes, so that a small file can ask for more than any memory holds.
constexpr std::size_t kMostTriangles = std::size_t{1} << 27;

enum Mode { kTriangles = 4, kStrip = 5, kFan = 6 };

/// Extensions that change no shape, or that the reader knows, by how their names begin.
constexpr std::array<std::string_view, 6> kHarmless{
    "KHR_materials_", "KHR_texture_", "EXT_texture_", "KHR_lights_", "KHR_xmp", "KHR_mesh_quantization"};

double determinant(const Transform& t) {
  return dot(Vec3d{t(0, 0), t(1, 0), t(2, 0)},
             cross(Vec3d{t(0, 1), t(1, 1), t(2, 1)}, Vec3d{t(0, 2), t(1, 2), t(2, 2)}));
}

/// A unit quaternion x, y, z, w as a rotation; any length is scaled to one.
Transform rotation(const std::array<double, 4>& q) {
  const double norm = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
  if (!(norm > 0)) return {};
  const double s = 2 / norm, x = q[0], y = q[1], z = q[2], w = q[3];
  Transform result;
  result(0, 0) = 1 - s * (y * y + z * z);
  result(0, 1) = s * (x * y - z * w);
  result(0, 2) = s * (x * z + y * w);
  result(1, 0) = s * (x * y + z * w);
  result(1, 1) = 1 - s * (x * x + z * z);
  result(1, 2) = s * (y * z - x * w);
  result(2, 0) = s * (x * z - y * w);
  result(2, 1) = s * (y * z + x * w);
  result(2, 2) = 1 - s * (x * x + y * y);
  return result;
}

class Reader {
 public:
  Reader(std::string_view bytes, const std::filesystem::path& folder, const std::string& label,
         const std::string& stem, std::vector<std::string>* notes)
      : file_(bytes, folder, label), stem_(stem), notes_(notes) {}

  std::vector<FileMesh> read() {
    check_version();
    check_extensions();
    std::vector<std::size_t> roots = root_nodes();
    if (roots.empty()) {
      // Meshes that no node places stand where they are.
      for (std::size_t i = 0; i < file_.size("meshes"); ++i) place_mesh(i, "", {}, "meshes");
    }
    walk(roots);
    if (shapes_.empty()) {
      throw_data(
          fmt::format("glTF file '{}' has no triangles in its scene; give one with surfaces", file_.label()));
    }
    add_notes();
    return std::move(shapes_);
  }

 private:
  void check_version() const {
    const auto asset = file_.root().find("asset");
    if (asset == file_.root().end() || !asset->is_object()) {
      throw_data(fmt::format("'{}' is not a glTF file: it has no asset", file_.label()));
    }
    const std::string version = file_.text(*asset, "version");
    if (!version.starts_with("2.")) {
      file_.fail("asset",
                 fmt::format("version '{}' is not 2.x, which this reader knows", version.substr(0, 40)));
    }
  }

  void check_extensions() const {
    const Json* const required = file_.array(file_.root(), "extensionsRequired", "the file");
    if (!required) return;
    for (const Json& entry : *required) {
      const std::string name = entry.is_string() ? entry.get<std::string>() : std::string();
      const bool known = std::any_of(kHarmless.begin(), kHarmless.end(),
                                     [&](std::string_view begin) { return name.starts_with(begin); });
      if (!known) {
        file_.fail("extensionsRequired",
                   fmt::format("'{}' is not known; export without it (no compression, no "
                               "instancing extension)",
                               name.substr(0, 80)));
      }
    }
  }

  std::vector<std::size_t> root_nodes() const {
    std::vector<std::size_t> roots;
    if (file_.size("scenes") > 0) {
      const std::size_t scene = file_.whole(file_.root(), "scene", "the file", 0);
      const std::string path = fmt::format("scenes[{}]", scene);
      if (const Json* nodes = file_.array(file_.item("scenes", scene, "the file"), "nodes", path)) {
        for (const Json& node : *nodes) roots.push_back(node_index(node, path));
      }
      return roots;
    }
    std::set<std::size_t> children;
    for (std::size_t i = 0; i < file_.size("nodes"); ++i) {
      const std::string path = fmt::format("nodes[{}]", i);
      if (const Json* list = file_.array(file_.item("nodes", i, "the file"), "children", path)) {
        for (const Json& child : *list) children.insert(node_index(child, path));
      }
    }
    for (std::size_t i = 0; i < file_.size("nodes"); ++i) {
      if (!children.contains(i)) roots.push_back(i);
    }
    return roots;
  }

  std::size_t node_index(const Json& value, const std::string& path) const {
    if (!value.is_number_unsigned()) file_.fail(path, "a node is named by a whole number from 0");
    return value.get<std::size_t>();
  }

  /// Depth first, in the order of the file, without recursion: files nest as deep as they like.
  void walk(const std::vector<std::size_t>& roots) {
    struct Step {
      std::size_t node;
      Transform parent;
    };
    std::vector<Step> todo;
    for (auto root = roots.rbegin(); root != roots.rend(); ++root) todo.push_back({*root, {}});
    std::vector<bool> seen(file_.size("nodes"), false);
    while (!todo.empty()) {
      const Step step = todo.back();
      todo.pop_back();
      const std::string path = fmt::format("nodes[{}]", step.node);
      const Json& node = file_.item("nodes", step.node, "the scene");
      if (seen[step.node]) file_.fail(path, "has two parents, or is its own; nodes must form trees");
      seen[step.node] = true;
      const Transform to_world = step.parent * local_transform(node, path);
      for (const double value : to_world.m) {
        if (!is_finite(value)) file_.fail(path, "its transform is not finite");
      }
      if (node.contains("mesh")) {
        place_mesh(file_.whole(node, "mesh", path), file_.text(node, "name"), to_world, path);
      }
      if (node.contains("skin")) skinned_ = true;
      if (const auto extensions = node.find("extensions"); extensions != node.end() &&
                                                           extensions->is_object() &&
                                                           extensions->contains("EXT_mesh_gpu_instancing")) {
        file_.fail(path, "uses EXT_mesh_gpu_instancing, which is not known; export without instancing");
      }
      if (const Json* children = file_.array(node, "children", path)) {
        for (auto child = children->rbegin(); child != children->rend(); ++child) {
          todo.push_back({node_index(*child, path), to_world});
        }
      }
    }
  }

  Transform local_transform(const Json& node, const std::string& path) const {
    std::array<double, 16> columns;
    Transform result;
    if (file_.numbers(node, "matrix", path, 16, columns.data())) {
      for (int row = 0; row < 4; ++row) {
        for (int column = 0; column < 4; ++column) {
          result(row, column) = columns[static_cast<std::size_t>(4 * column + row)];
        }
      }
      if (result(3, 0) != 0 || result(3, 1) != 0 || result(3, 2) != 0 || result(3, 3) != 1) {
        file_.fail(path, "the last row of its matrix must be 0 0 0 1");
      }
      return result;
    }
    std::array<double, 3> move{0, 0, 0}, scale{1, 1, 1};
    std::array<double, 4> turn{0, 0, 0, 1};
    file_.numbers(node, "translation", path, 3, move.data());
    file_.numbers(node, "rotation", path, 4, turn.data());
    file_.numbers(node, "scale", path, 3, scale.data());
    return Transform::translation({move[0], move[1], move[2]}) * rotation(turn) *
           Transform::scaling({scale[0], scale[1], scale[2]});
  }

  void place_mesh(std::size_t index, const std::string& node_name, const Transform& to_world,
                  const std::string& used_by) {
    const std::vector<FileMesh>& primitives = mesh(index, used_by);
    const bool mirrored = determinant(to_world) < 0;
    for (const FileMesh& primitive : primitives) {
      triangles_ += primitive.mesh.faces.size();
      if (triangles_ > kMostTriangles) {
        file_.fail(used_by, fmt::format("the nodes so far make more than {} triangles; split the scene",
                                        kMostTriangles));
      }
      FileMesh shape = primitive;
      if (!node_name.empty()) shape.mesh.name = node_name + shape.mesh.name.substr(mesh_name(index).size());
      shape.mesh.to_world = to_world;
      if (mirrored) {
        for (Face& face : shape.mesh.faces) std::swap(face[1], face[2]);
      }
      shapes_.push_back(std::move(shape));
    }
  }

  std::string mesh_name(std::size_t index) const {
    const std::string name = file_.text(file_.item("meshes", index, "a node"), "name");
    return name.empty() ? fmt::format("{}-mesh{}", stem_, index) : name;
  }

  /// The triangles of a mesh, read once: "house", or "house#0", "house#1" where it has several primitives.
  const std::vector<FileMesh>& mesh(std::size_t index, const std::string& used_by) {
    if (const auto known = meshes_.find(index); known != meshes_.end()) return known->second;
    const Json& object = file_.item("meshes", index, used_by);
    const std::string path = fmt::format("meshes[{}]", index);
    const Json* const primitives = file_.array(object, "primitives", path);
    if (!primitives) file_.fail(path, "has no primitives");
    std::vector<FileMesh> shapes;
    for (std::size_t i = 0; i < primitives->size(); ++i) {
      const Json& primitive = (*primitives)[i];
      const std::string place = fmt::format("{}.primitives[{}]", path, i);
      if (!primitive.is_object()) file_.fail(place, "is not an object");
      const std::size_t mode = file_.whole(primitive, "mode", place, kTriangles);
      if (mode < kTriangles) {
        ++thin_;
        continue;
      }
      if (mode > kFan) file_.fail(place, fmt::format("mode {} is not known", mode));
      FileMesh shape = read_primitive(primitive, place, mode);
      shape.mesh.name = mesh_name(index);
      if (primitives->size() > 1) shape.mesh.name += fmt::format("#{}", i);
      shapes.push_back(std::move(shape));
    }
    return meshes_.emplace(index, std::move(shapes)).first->second;
  }

  FileMesh read_primitive(const Json& primitive, const std::string& place, std::size_t mode) {
    if (const auto extensions = primitive.find("extensions"); extensions != primitive.end()) {
      for (const char* name : {"KHR_draco_mesh_compression", "EXT_meshopt_compression"}) {
        if (extensions->is_object() && extensions->contains(name)) {
          file_.fail(place, fmt::format("is compressed with {}; export without compression", name));
        }
      }
    }
    if (primitive.contains("targets")) morphed_ = true;
    const auto attributes = primitive.find("attributes");
    if (attributes == primitive.end() || !attributes->is_object() || !attributes->contains("POSITION")) {
      file_.fail(place, "has no attribute POSITION");
    }
    FileMesh shape;
    shape.stored_as_float = true;
    set_positions(shape, file_.read_points(file_.whole(*attributes, "POSITION", place)));
    const std::size_t vertices = shape.mesh.vertices.size();
    std::vector<std::uint32_t> indices;
    if (primitive.contains("indices")) {
      indices = file_.read_indices(file_.whole(primitive, "indices", place), vertices);
    } else {
      indices.resize(vertices);
      for (std::size_t i = 0; i < vertices; ++i) indices[i] = static_cast<std::uint32_t>(i);
    }
    add_faces(indices, mode, place, shape.mesh.faces);
    if (primitive.contains("material")) {
      const std::size_t material = file_.whole(primitive, "material", place);
      shape.material = file_.text(file_.item("materials", material, place), "name");
      if (shape.material.empty()) shape.material = fmt::format("material{}", material);
    }
    return shape;
  }

  /// Section 3.7.2.1 of the specification.
  void add_faces(const std::vector<std::uint32_t>& indices, std::size_t mode, const std::string& place,
                 std::vector<Face>& faces) const {
    const std::size_t n = indices.size();
    if (n < 3 || (mode == kTriangles && n % 3 != 0)) {
      file_.fail(place, fmt::format("{} corners make no triangles", n));
    }
    const auto emit = [&](std::size_t a, std::size_t b, std::size_t c) {
      faces.push_back({static_cast<std::int32_t>(indices[a]), static_cast<std::int32_t>(indices[b]),
                       static_cast<std::int32_t>(indices[c])});
    };
    faces.reserve(mode == kTriangles ? n / 3 : n - 2);
    if (mode == kTriangles) {
      for (std::size_t i = 0; i < n; i += 3) emit(i, i + 1, i + 2);
    } else if (mode == kStrip) {
      for (std::size_t i = 0; i + 2 < n; ++i) emit(i, i + 1 + i % 2, i + 2 - i % 2);
    } else {
      for (std::size_t i = 0; i + 2 < n; ++i) emit(i + 1, i + 2, 0);
    }
  }

  void add_notes() const {
    if (!notes_) return;
    const auto note = [&](const std::string& text) {
      notes_->push_back(fmt::format("glTF file '{}': {}", file_.label(), text));
    };
    if (thin_ > 0) note(fmt::format("points and lines are passed over ({} primitives)", thin_));
    if (skinned_ || morphed_)
      note("skins and morph targets are passed over; meshes stand as they are stored");
    if (file_.size("animations") > 0) note("animations are passed over; nodes stand as they are stored");
  }

  File file_;
  const std::string& stem_;
  std::vector<std::string>* notes_;
  std::map<std::size_t, std::vector<FileMesh>> meshes_;
  std::vector<FileMesh> shapes_;
  std::size_t triangles_ = 0, thin_ = 0;
  bool skinned_ = false, morphed_ = false;
};

}  // namespace
}  // namespace gltf

std::vector<FileMesh> parse_gltf(std::string_view bytes, const std::filesystem::path& folder,
                                 const std::string& label, const std::string& stem,
                                 std::vector<std::string>* notes) {
  try {
    return gltf::Reader(bytes, folder, label, stem, notes).read();
  } catch (const nlohmann::json::parse_error& error) {
    throw_data(fmt::format("glTF file '{}', byte {}: its JSON is damaged or cut short: {}", label, error.byte,
                           error.what()));
  } catch (const nlohmann::json::exception& error) {
    throw_data(fmt::format("glTF file '{}' is not as the format asks: {}", label, error.what()));
  }
}

}  // namespace shardwise
