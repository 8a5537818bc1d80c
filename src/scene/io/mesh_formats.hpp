#pragma once
// The readers of mesh files, from bytes. All of them check every count against the bytes that are there
// before they allocate, check every index, keep the file's order of faces, join no vertices and make up no
// normals. Errors are of class data and name the format, `label`, and line, byte or path in the file.
// Vertices that are not finite pass: SceneModel lists them.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "file_mesh.hpp"

namespace shardwise {

/// parse_ply() with coordinates in double; the mesh has no name.
FileMesh parse_ply_file(std::string_view bytes, const std::string& label,
                        std::vector<std::string>* notes = nullptr);

/// Wavefront OBJ (Wavefront, "Advanced Visualizer manual, appendix B1: object files", 1993): v, f, o, g,
/// usemtl; polygons are cut into triangles; relative indices; lines joined by a backslash. A shape begins
/// wherever object, group or material change; it has the vertices it uses, in the file's order, and is called
/// after object and group, or `stem`. Texture coordinates, normals, smoothing and mtllib are passed over;
/// points, lines and free-form surfaces are noted.
std::vector<FileMesh> parse_obj(std::string_view bytes, const std::string& label, const std::string& stem,
                                std::vector<std::string>* notes = nullptr);

/// The same file as one shape with all its vertices; its materials are passed over.
FileMesh parse_obj_joined(std::string_view bytes, const std::string& label,
                          std::vector<std::string>* notes = nullptr);

/// STL (3D Systems, "StereoLithography interface specification", 1989), binary where the size fits the count
/// of a binary file, else ascii. One shape a solid; three vertices a facet, never joined; normals are passed
/// over.
std::vector<FileMesh> parse_stl(std::string_view bytes, const std::string& label, const std::string& stem,
                                std::vector<std::string>* notes = nullptr);

/// glTF 2.0 (Khronos Group, "glTF 2.0 specification", 2021; ISO/IEC 12113), text or binary (GLB). One shape a
/// primitive of triangles of every node of the scene, its transform composed in double; winding follows the
/// transform's determinant. Buffers are looked up from `folder`. Skins, morph targets and animations are
/// noted; compressed meshes, sparse accessors and extensions that a reader must know are refused by name. y
/// is up in what comes back.
std::vector<FileMesh> parse_gltf(std::string_view bytes, const std::filesystem::path& folder,
                                 const std::string& label, const std::string& stem,
                                 std::vector<std::string>* notes = nullptr);

}  // namespace shardwise
