#pragma once
// Scenes in and out of files. read_swscene() and write_swscene() are in the scene core, the rest in the
// importers (CMake target shardwise::io).

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwise/scene/mesh.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

/// Which axis of a file points up.
enum class UpAxis {
  of_format,  ///< y for glTF, z for every other format
  x,
  y,
  z,
};

/// What is subtracted from x and y, metres, after axes and unit were applied; see SceneModel::origin_shift().
struct SceneOrigin {
  enum class Kind {
    automatic,  ///< nothing up to 10 km; else the middle of the scene, to whole kilometres
    none,
    given,  ///< x and y below, whole metres
  };
  Kind kind = Kind::automatic;
  double x = 0, y = 0;
};

/// How a scene file is read.
struct SceneReadOptions {
  SceneModelOptions model = {};
  /// `--material CLASS`: the class of shapes that have no material.
  std::optional<std::string> material_override = {};
  /// `--materials FILE.toml`: materials by the name that the scene file gives; they win over what the file
  /// says. Each key's Material is used as it is, except that its name becomes the key. A name with a numeric
  /// suffix (`wall.001`) that is no key is looked up without it.
  std::map<std::string, Material> materials = {};
  UpAxis up = UpAxis::of_format;
  double unit = 1;  ///< metres of one unit of the file, > 0
  SceneOrigin origin = {};
};

/// Reads a scene and builds it (SceneModel::build() has run), by the suffix of its name:
///   .xml          Mitsuba; needs a build with pugixml
///   .obj          Wavefront; materials by name (usemtl), no MTL file is opened
///   .gltf, .glb   glTF 2.0; materials by name
///   .stl, .ply    no materials: they need material_override
///   .swscene      what write_swscene() wrote; `up`, `unit` and `origin` were applied then, and are refused
/// Axes, unit and origin are applied in double; the scene is in metres, z up, near its origin.
///
/// Remarks that are no errors (suffixes dropped, polygons triangulated or not planar, keys not used, the
/// shift of the origin) are appended to `*notes`. Errors are of class data and name file, line or byte, shape
/// and value; all unknown materials and plugins are listed in one error, together with what mends them.
SceneModel read_scene(const std::filesystem::path& path, const SceneReadOptions& options = {},
                      std::vector<std::string>* notes = nullptr);

/// The same for a Mitsuba XML text; mesh files are looked up from `folder`, and errors call the text `label`.
SceneModel read_mitsuba_xml(std::string_view text, const std::filesystem::path& folder,
                            const std::string& label, const SceneReadOptions& options = {},
                            std::vector<std::string>* notes = nullptr);

/// Reads a PLY file: ascii, binary little- or big-endian; any scalar types; other elements and properties are
/// passed over. Polygons become triangles: fans where they are convex, ear clipping where they are not; those
/// that are not planar are noted. The mesh's name is the file's stem. Vertices that are not finite pass
/// (SceneModel lists them). Data errors name the file and the line (ascii) or byte (binary): not a PLY file,
/// truncated or longer than its counts, an index that is negative or past the end, a list of fewer than three
/// corners.
Mesh read_ply(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

/// The same for bytes in memory; errors call them `label`.
Mesh parse_ply(std::string_view bytes, const std::string& label, std::vector<std::string>* notes = nullptr);

enum class PlyEncoding { ascii, binary_little_endian, binary_big_endian };

/// Writes the object-space vertices, vertex normals and uv of a mesh (not its transform or material) as
/// float32, so that reading gives the same bits. uv must be per vertex (face_uv == faces): a usage error
/// otherwise.
void write_ply(const std::filesystem::path& path, const Mesh& mesh,
               PlyEncoding encoding = PlyEncoding::binary_little_endian);

/// The bytes that write_ply() writes.
std::string format_ply(const Mesh& mesh, PlyEncoding encoding);

/// Writes meshes, instances, names and materials to one binary file with a checksum (layout:
/// src/scene/swscene.cpp). A state error while updates are pending.
void write_swscene(const std::filesystem::path& path, const SceneModel& scene);
std::string format_swscene(const SceneModel& scene);

/// Reads such a file, bit for bit, and builds the scene. Data errors name the file and what is damaged.
SceneModel read_swscene(const std::filesystem::path& path, const SceneModelOptions& options = {});
SceneModel parse_swscene(std::string_view bytes, const std::string& label,
                         const SceneModelOptions& options = {});

}  // namespace shardwise
