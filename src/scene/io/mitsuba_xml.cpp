// Reads the part of the Mitsuba XML format that radio scenes use: shapes, transforms, materials, defaults.

#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <set>

#include "mesh_formats.hpp"
#include "mitsuba_attributes.hpp"
#include "mitsuba_materials.hpp"
#include "mitsuba_transform.hpp"
#include "placement.hpp"
#include "scene/file_util.hpp"
#include "scene_materials.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace mitsuba {
namespace {

/// What a radio scene does not need; said nothing about.
bool is_skipped(std::string_view element) {
  return element == "sensor" || element == "integrator" || element == "emitter" || element == "film" ||
         element == "sampler" || element == "rfilter";
}

bool is_property(std::string_view element) {
  for (const std::string_view name :
       {"string", "float", "integer", "boolean", "point", "vector", "rgb", "spectrum"}) {
    if (element == name) return true;
  }
  return false;
}

/// z = 0, corners at +-1, facing +z.
Mesh rectangle() {
  Mesh mesh;
  mesh.vertices = {{-1, -1, 0}, {1, -1, 0}, {1, 1, 0}, {-1, 1, 0}};
  mesh.faces = {{0, 1, 2}, {0, 2, 3}};
  return mesh;
}

/// Corners at +-1; vertex i has x, y, z = + where bits 0, 1, 2 of i are set; faces look outward.
Mesh cube() {
  Mesh mesh;
  for (int i = 0; i < 8; ++i) {
    mesh.vertices.push_back({i & 1 ? 1.0f : -1.0f, i & 2 ? 1.0f : -1.0f, i & 4 ? 1.0f : -1.0f});
  }
  mesh.faces = {{0, 2, 3}, {0, 3, 1}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                {2, 6, 7}, {2, 7, 3}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
  return mesh;
}

class Reader {
 public:
  Reader(std::string_view text, const std::filesystem::path& folder, const std::string& label,
         const SceneReadOptions& options, std::vector<std::string>* notes)
      : attributes_(text, label), folder_(folder), options_(options), notes_(notes), scene_(options.model) {
    const pugi::xml_parse_result parsed =
        document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed) {
      throw_data(fmt::format("scene '{}', line {}: not well-formed XML: {}", label,
                             attributes_.line_at(parsed.offset), parsed.description()));
    }
  }

  SceneModel read() {
    const pugi::xml_node root = document_.child("scene");
    if (!root)
      throw_data(
          fmt::format("scene '{}' has no <scene> element; it is not a Mitsuba scene", attributes_.label()));
    for (const pugi::xml_node node : root.children("default")) {
      if (!attributes_.has(node, "name") || !attributes_.has(node, "value")) {
        attributes_.fail(node, "needs the attributes name and value");
      }
      attributes_.set_default(node.attribute("name").value(), attributes_.text(node, "value"));
    }
    collect_bsdfs(root);
    for (const pugi::xml_node node : root.children()) {
      if (node.type() != pugi::node_element) continue;
      const std::string_view element = node.name();
      if (element == "shape") {
        read_shape(node);
      } else if (element != "bsdf" && element != "default" && !is_skipped(element)) {
        problem_of_element(node, "the scene");
      }
    }
    problems_.throw_if_any(attributes_.label());
    if (shapes_.empty()) throw_data(fmt::format("scene '{}' has no shapes", attributes_.label()));
    note_unused_materials();
    return place_shapes(std::move(scene_), std::move(shapes_), UpAxis::z, options_, notes_);
  }

 private:
  /// Also what bounds the depth of everything that looks into a bsdf later.
  void collect_bsdfs(pugi::xml_node parent, int depth = 0) {
    constexpr int deepest = 32;
    if (depth > deepest)
      attributes_.fail(parent, fmt::format("is nested more than {} deep; take out what wraps it", deepest));
    for (const pugi::xml_node node : parent.children()) {
      const std::string_view element = node.name();
      if (element != "bsdf" && element != "shape") continue;
      const std::string id = element == "bsdf" ? attributes_.text(node, "id") : "";
      if (!id.empty() && !bsdfs_.emplace(id, node).second) {
        attributes_.fail(node, fmt::format("id '{}' stands on another bsdf already, line {}", id,
                                           attributes_.line_of(bsdfs_.at(id))));
      }
      collect_bsdfs(node, depth + 1);
    }
  }

  void problem_of_element(pugi::xml_node node, const std::string& shape) {
    const std::string type = attributes_.text(node, "type");
    problems_.add(type.empty() ? fmt::format("element <{}> is not known", node.name())
                               : fmt::format("{} plugin '{}' is not known", node.name(), type),
                  "", shape);
  }

  void read_shape(pugi::xml_node node) {
    const std::string type = attributes_.text(node, "type");
    std::string name = attributes_.text(node, "id");
    if (name.empty()) name = fmt::format("{}@line{}", type, attributes_.line_of(node));

    std::string filename;
    Transform to_world;
    bool face_normals = false, flip_normals = false;
    std::vector<pugi::xml_node> material_nodes;
    for (const pugi::xml_node child : node.children()) {
      if (child.type() != pugi::node_element) continue;
      const std::string_view element = child.name();
      const std::string key = attributes_.text(child, "name");
      if (element == "string" && key == "filename") {
        filename = attributes_.text(child, "value");
      } else if (element == "boolean" && key == "face_normals") {
        face_normals = attributes_.boolean(child, "value");
      } else if (element == "boolean" && key == "flip_normals") {
        flip_normals = attributes_.boolean(child, "value");
      } else if (element == "transform" && key == "to_world") {
        to_world = read_transform(child, attributes_);
      } else if (element == "bsdf" || (element == "ref" && (key.empty() || key == "bsdf"))) {
        material_nodes.push_back(child);
      } else if (is_property(element)) {
        note_once(fmt::format("shapes of type '{}': property '{}' is not used", type, key));
      } else if (!is_skipped(element)) {
        problem_of_element(child, name);
      }
    }
    if (material_nodes.size() > 1) {
      attributes_.fail(
          node, fmt::format("shape '{}' has {} materials, it may have one", name, material_nodes.size()));
    }

    const std::int32_t material = material_of(material_nodes, name);
    if (type != "ply" && type != "obj" && type != "rectangle" && type != "cube") {
      problems_.add(fmt::format("shape plugin '{}' is not known (known: ply, obj, rectangle, cube)", type),
                    "", name);
      return;
    }
    // Meshes are not worth reading once it is clear that the scene will be refused.
    if (!problems_.empty()) return;
    FileMesh shape;
    if (type == "cube") {
      shape.mesh = cube();
    } else if (type == "rectangle") {
      shape.mesh = rectangle();
    } else {
      shape = read_mesh_file(node, name, filename, type == "ply");
    }
    Mesh& mesh = shape.mesh;
    mesh.name = name;
    mesh.use_face_normals = face_normals;
    mesh.to_world = to_world;
    mesh.material = material;
    if (flip_normals) {
      for (auto* faces : {&mesh.faces, &mesh.face_uv}) {
        for (Face& face : *faces) std::swap(face[1], face[2]);
      }
    }
    shapes_.push_back(std::move(shape));
  }

  FileMesh read_mesh_file(pugi::xml_node node, const std::string& name, std::string filename, bool is_ply) {
    if (filename.empty()) attributes_.fail(node, fmt::format("shape '{}' has no filename", name));
    std::replace(filename.begin(), filename.end(), '\\', '/');
    try {
      const std::filesystem::path path = folder_ / filename;
      const std::string bytes = read_whole_file(path, is_ply ? "PLY file" : "OBJ file");
      return is_ply ? parse_ply_file(bytes, path.string(), notes_)
                    : parse_obj_joined(bytes, path.string(), notes_);
    } catch (const Error& error) {
      throw Error(error.error_class(), fmt::format("{} (shape '{}', scene '{}', line {})", error.what(), name,
                                                   attributes_.label(), attributes_.line_of(node)));
    }
  }

  /// Index into the scene's materials; -1 after noting a problem.
  std::int32_t material_of(const std::vector<pugi::xml_node>& nodes, const std::string& shape) {
    if (nodes.empty()) {
      if (!options_.material_override) {
        problems_.add("shapes without a material (--material CLASS gives them one)", "", shape);
        return -1;
      }
      return scene_.add_material(make_itu_material(override_name(), *options_.material_override));
    }
    pugi::xml_node node = nodes.front();
    std::string id;
    if (std::string_view(node.name()) == "ref") {
      id = attributes_.text(node, "id");
      if (const auto known = material_of_id_.find(id); known != material_of_id_.end()) {
        if (known->second >= 0) return known->second;
      }
      std::string key, note;
      if (const auto found = bsdfs_.find(id); found != bsdfs_.end()) {
        node = found->second;
      } else if (const auto given = given_material(id, options_, &key, &note)) {
        used_options_.insert(key);
        if (!note.empty()) note_once(note);
        return material_of_id_[id] = scene_.add_material(*given);
      } else {
        return unknown(fmt::format("material '{}': no bsdf has this id", id), id, nearest_itu_class(id),
                       shape);
      }
    }
    const ResolvedBsdf resolved = mitsuba::resolve_bsdf(node, attributes_, options_, notes_);
    if (!resolved.material) {
      return unknown(fmt::format("material '{}' ({})", resolved.name, resolved.problem), resolved.name,
                     resolved.nearest, shape);
    }
    if (!resolved.given_key.empty()) used_options_.insert(resolved.given_key);
    const std::int32_t index = add_material(*resolved.material, shape);
    if (!id.empty()) material_of_id_[id] = index;
    return index;
  }

  std::int32_t unknown(const std::string& what, const std::string& name, const std::string& nearest,
                       const std::string& shape) {
    problems_.add_unknown_material(what, name, nearest, shape);
    return -1;
  }

  std::string override_name() const {
    // A bsdf of that name may say something else about the class.
    return bsdfs_.contains(*options_.material_override) ? *options_.material_override + " (--material)"
                                                        : *options_.material_override;
  }

  /// Materials without an id share a name with their class; the shape tells those apart that differ.
  std::int32_t add_material(Material material, const std::string& shape) {
    const auto& table = scene_.materials();
    const bool taken = std::any_of(table.begin(), table.end(), [&](const Material& other) {
      return other.name == material.name && other != material;
    });
    if (taken) material.name += "@" + shape;
    return scene_.add_material(material);
  }

  void note_once(const std::string& text) {
    if (notes_ && noted_.insert(text).second) notes_->push_back(text);
  }

  void note_unused_materials() {
    for (const auto& [name, material] : options_.materials) {
      if (!used_options_.contains(name))
        note_once(fmt::format("no shape has the material '{}' that was given", name));
    }
  }

  Attributes attributes_;
  std::filesystem::path folder_;
  const SceneReadOptions& options_;
  std::vector<std::string>* notes_;
  SceneModel scene_;
  pugi::xml_document document_;
  std::map<std::string, pugi::xml_node> bsdfs_;
  std::map<std::string, std::int32_t> material_of_id_;
  std::vector<FileMesh> shapes_;
  Problems problems_;
  std::set<std::string> noted_, used_options_;
};

}  // namespace
}  // namespace mitsuba

SceneModel read_mitsuba_xml(std::string_view text, const std::filesystem::path& folder,
                            const std::string& label, const SceneReadOptions& options,
                            std::vector<std::string>* notes) {
  return mitsuba::Reader(text, folder, label, options, notes).read();
}

}  // namespace shardwise
