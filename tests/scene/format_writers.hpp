#pragma once
// Writers of the formats that the product only reads, for round trips: world triangles of a scene, shape by
// shape.

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "shardwise/scene/scene_io.hpp"

namespace shardwise::test {

/// One shape as formats see it: world vertices, its own indices, the name of its material.
struct PlainShape {
  std::string name, material;
  std::vector<Vec3f> vertices;
  std::vector<Face> faces;
};

inline std::vector<PlainShape> plain_shapes(const SceneModel& scene) {
  const SceneGeometry& g = scene.geometry();
  std::vector<PlainShape> shapes;
  for (std::int32_t id = 0; id < scene.num_meshes(); ++id) {
    const auto k = static_cast<std::size_t>(id);
    PlainShape shape;
    shape.name = scene.shape_name(id);
    const std::int32_t material = scene.mesh(id).material;
    if (material >= 0) shape.material = scene.materials()[static_cast<std::size_t>(material)].name;
    shape.vertices.assign(g.vertices.begin() + g.vertex_offset[k],
                          g.vertices.begin() + g.vertex_offset[k + 1]);
    for (std::int32_t f = g.face_offset[k]; f < g.face_offset[k + 1]; ++f) {
      Face face = g.faces[static_cast<std::size_t>(f)];
      for (std::int32_t& index : face) index -= g.vertex_offset[k];
      shape.faces.push_back(face);
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

/// The shortest text that reads back to the same bits.
template <class T>
std::string number_text(T value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

inline void save(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// Indices count over the whole file, from 1; texture and normal indices are there, as exporters write them.
inline std::string obj_text(const std::vector<PlainShape>& shapes, const std::string& line_end = "\n") {
  std::string text =
      "# exported" + line_end + "mtllib scene.mtl" + line_end + "vt 0 0" + line_end + "vn 0 0 1" + line_end;
  std::int64_t base = 1;
  for (const PlainShape& shape : shapes) {
    text += "o " + shape.name + line_end;
    for (const Vec3f& p : shape.vertices) {
      text += "v " + number_text(p.x) + " " + number_text(p.y) + " " + number_text(p.z) + line_end;
    }
    if (!shape.material.empty()) text += "usemtl " + shape.material + line_end;
    text += "s off" + line_end;
    for (const Face& face : shape.faces) {
      text += "f";
      for (const std::int32_t index : face)
        text.append(" ").append(std::to_string(base + index)).append("/1/1");
      text += line_end;
    }
    base += static_cast<std::int64_t>(shape.vertices.size());
  }
  return text;
}

inline std::string stl_text(const std::vector<PlainShape>& shapes) {
  std::string text;
  for (const PlainShape& shape : shapes) {
    text += "solid " + shape.name + "\n";
    for (const Face& face : shape.faces) {
      text += " facet normal 0 0 0\n  outer loop\n";
      for (const std::int32_t index : face) {
        const Vec3f p = shape.vertices[static_cast<std::size_t>(index)];
        text += "   vertex " + number_text(p.x) + " " + number_text(p.y) + " " + number_text(p.z) + "\n";
      }
      text += "  endloop\n endfacet\n";
    }
    text += "endsolid " + shape.name + "\n";
  }
  return text;
}

inline std::string stl_bytes(const std::vector<PlainShape>& shapes) {
  std::string bytes = "solid by its first word, binary by its size";
  bytes.resize(80, ' ');
  std::uint32_t count = 0;
  for (const PlainShape& shape : shapes) count += static_cast<std::uint32_t>(shape.faces.size());
  append(bytes, count);
  for (const PlainShape& shape : shapes) {
    for (const Face& face : shape.faces) {
      append(bytes, Vec3f{});
      for (const std::int32_t index : face) append(bytes, shape.vertices[static_cast<std::size_t>(index)]);
      append(bytes, std::uint16_t{0});
    }
  }
  return bytes;
}

/// JSON and buffer of a glTF file: one mesh and one node a shape, y up as the format asks. `uri`: what the
/// buffer is called; empty in a GLB file.
inline std::pair<std::string, std::string> gltf_parts(const std::vector<PlainShape>& shapes,
                                                      const std::string& uri) {
  std::string buffer, views, accessors, meshes, nodes, materials, scene;
  std::vector<std::string> names;
  const auto comma = [](std::string& list) {
    if (!list.empty()) list += ",";
  };
  std::size_t view = 0;
  for (const PlainShape& shape : shapes) {
    const std::size_t at = buffer.size();
    for (const Vec3f& p : shape.vertices) append(buffer, Vec3f{p.x, p.z, -p.y});
    const std::size_t indices = buffer.size();
    for (const Face& face : shape.faces) append(buffer, face);
    comma(views);
    views += "{\"buffer\":0,\"byteOffset\":" + std::to_string(at) +
             ",\"byteLength\":" + std::to_string(indices - at) +
             "},{\"buffer\":0,\"byteOffset\":" + std::to_string(indices) +
             ",\"byteLength\":" + std::to_string(buffer.size() - indices) + "}";
    comma(accessors);
    accessors +=
        "{\"bufferView\":" + std::to_string(view) +
        ",\"componentType\":5126,\"type\":\"VEC3\",\"count\":" + std::to_string(shape.vertices.size()) +
        "},{\"bufferView\":" + std::to_string(view + 1) +
        ",\"componentType\":5125,\"type\":\"SCALAR\",\"count\":" + std::to_string(3 * shape.faces.size()) +
        "}";
    std::size_t material = 0;
    while (material < names.size() && names[material] != shape.material) ++material;
    if (material == names.size()) {
      names.push_back(shape.material);
      comma(materials);
      materials += "{\"name\":\"" + shape.material + "\",\"pbrMetallicRoughness\":{}}";
    }
    comma(meshes);
    meshes += "{\"name\":\"" + shape.name +
              "\",\"primitives\":[{\"attributes\":{\"POSITION\":" + std::to_string(view) +
              "},\"indices\":" + std::to_string(view + 1) + ",\"material\":" + std::to_string(material) +
              "}]}";
    comma(nodes);
    nodes += "{\"name\":\"" + shape.name + "\",\"mesh\":" + std::to_string(view / 2) + "}";
    comma(scene);
    scene += std::to_string(view / 2);
    view += 2;
  }
  std::string json = "{\"asset\":{\"version\":\"2.0\"},\"scene\":0,\"scenes\":[{\"nodes\":[" + scene +
                     "]}],\"nodes\":[" + nodes + "],\"meshes\":[" + meshes + "],\"materials\":[" + materials +
                     "],\"accessors\":[" + accessors + "],\"bufferViews\":[" + views +
                     "],\"buffers\":[{\"byteLength\":" + std::to_string(buffer.size());
  if (!uri.empty()) json += ",\"uri\":\"" + uri + "\"";
  return {json + "}]}", buffer};
}

inline std::string glb_of(std::string json, std::string buffer) {
  while (json.size() % 4 != 0) json += ' ';
  while (buffer.size() % 4 != 0) buffer += '\0';
  std::string bytes = "glTF";
  append(bytes, std::uint32_t{2});
  append(bytes, static_cast<std::uint32_t>(12 + 8 + json.size() + 8 + buffer.size()));
  append(bytes, static_cast<std::uint32_t>(json.size()));
  bytes += "JSON" + json;
  append(bytes, static_cast<std::uint32_t>(buffer.size()));
  return bytes + std::string("BIN\0", 4) + buffer;
}

inline std::string glb_bytes(const std::vector<PlainShape>& shapes) {
  const auto [json, buffer] = gltf_parts(shapes, "");
  return glb_of(json, buffer);
}

/// Coordinates moved by `shift`, as doubles.
inline std::string double_ply(const PlainShape& shape, Vec3d shift) {
  std::string bytes =
      "ply\nformat binary_little_endian 1.0\nelement vertex " + std::to_string(shape.vertices.size()) +
      "\nproperty double x\nproperty double y\nproperty double z\nelement face " +
      std::to_string(shape.faces.size()) + "\nproperty list uchar int vertex_indices\nend_header\n";
  for (const Vec3f& p : shape.vertices) append(bytes, to_double(p) + shift);
  for (const Face& face : shape.faces) {
    append(bytes, std::uint8_t{3});
    append(bytes, face);
  }
  return bytes;
}

/// scene.xml with one PLY file a shape, which `ply` makes; backslashes in the paths, as some exporters write
/// them.
template <class MakePly>
void save_as_xml(const std::filesystem::path& folder, const std::vector<PlainShape>& shapes,
                 const MakePly& ply) {
  std::filesystem::create_directories(folder / "meshes");
  std::string xml = "<scene version=\"2.1.0\">\n", bsdfs;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string file = std::to_string(i) + ".ply", &material = shapes[i].material;
    save(folder / "meshes" / file, ply(shapes[i]));
    if (std::find(known.begin(), known.end(), material) == known.end()) {
      known.push_back(material);
      xml += "<bsdf type=\"itu-radio-material\" id=\"" + material + "\"><string name=\"type\" value=\"" +
             material + "\"/></bsdf>\n";
    }
    bsdfs += "<shape type=\"ply\" id=\"" + shapes[i].name + "\"><string name=\"filename\" value=\"meshes\\" +
             file + "\"/><ref id=\"" + material + "\"/></shape>\n";
  }
  save(folder / "scene.xml", xml + bsdfs + "</scene>\n");
}

/// The shape as a mesh to hand to format_ply().
inline Mesh mesh_of(const PlainShape& shape) {
  Mesh mesh;
  mesh.name = shape.name;
  mesh.vertices = shape.vertices;
  mesh.faces = shape.faces;
  return mesh;
}

/// A ground and a house with a gable, of two materials, with decimals that a float rounds.
inline std::vector<PlainShape> small_scene() {
  PlainShape ground{"ground",
                    "itu_concrete",
                    {{-20.1f, -15.3f, 0}, {20.1f, -15.3f, 0}, {20.1f, 15.3f, 0}, {-20.1f, 15.3f, 0}},
                    {{0, 1, 2}, {0, 2, 3}}};
  PlainShape house{"house",
                   "itu_brick",
                   {{1.1f, 2.2f, 0},
                    {7.7f, 2.2f, 0},
                    {7.7f, 6.6f, 0},
                    {1.1f, 6.6f, 0},
                    {1.1f, 2.2f, 3.3f},
                    {7.7f, 2.2f, 3.3f},
                    {7.7f, 6.6f, 3.3f},
                    {1.1f, 6.6f, 3.3f},
                    {1.1f, 4.4f, 5.05f},
                    {7.7f, 4.4f, 5.05f}},
                   {{0, 1, 5},
                    {0, 5, 4},
                    {2, 3, 7},
                    {2, 7, 6},
                    {1, 2, 6},
                    {1, 6, 5},
                    {3, 0, 4},
                    {3, 4, 7},
                    {4, 5, 9},
                    {4, 9, 8},
                    {6, 7, 8},
                    {6, 8, 9},
                    {4, 8, 7},
                    {5, 6, 9}}};
  return {ground, house};
}

}  // namespace shardwise::test
