#pragma once
// A glTF file as JSON and buffers: typed access that names the path of what is wrong, and accessors read with
// every offset checked.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise::gltf {

using Json = nlohmann::json;

class File {
 public:
  /// Takes a GLB container or JSON text apart. `bytes` must outlive the object.
  File(std::string_view bytes, std::filesystem::path folder, std::string label);

  const Json& root() const { return root_; }
  const std::string& label() const { return label_; }

  /// "glTF file 'x.glb', meshes[3]: what" as a data error.
  [[noreturn]] void fail(const std::string& path, const std::string& what) const;

  /// Element `index` of a top-level array.
  const Json& item(const char* array, std::size_t index, const std::string& used_by) const;
  std::size_t size(const char* array) const;

  /// A whole number >= 0 under `key`, or the fallback where there is none.
  std::size_t whole(const Json& object, const char* key, const std::string& path, std::size_t fallback) const;
  /// A whole number that must be there.
  std::size_t whole(const Json& object, const char* key, const std::string& path) const;
  /// An array under `key`, or nothing.
  const Json* array(const Json& object, const char* key, const std::string& path) const;
  /// `count` finite numbers under `key`; false where there are none.
  bool numbers(const Json& object, const char* key, const std::string& path, std::size_t count,
               double* values) const;
  std::string text(const Json& object, const char* key) const;

  /// VEC3 accessors, floats or (KHR_mesh_quantization) integers.
  std::vector<Vec3d> read_points(std::size_t accessor);
  /// SCALAR accessors of unsigned integers, each below `limit`.
  std::vector<std::uint32_t> read_indices(std::size_t accessor, std::size_t limit);

 private:
  struct View {
    const char* data;
    std::size_t count, stride, component_bytes;
    int component;  // glTF's number for the type
    bool normalized;
  };
  View view_of(std::size_t accessor, const char* type, std::size_t components);
  std::string_view buffer(std::size_t index, const std::string& used_by);

  std::filesystem::path folder_;
  std::string label_;
  Json root_;
  std::string_view binary_;  // the BIN chunk of a GLB
  bool is_binary_ = false;
  std::map<std::size_t, std::string> loaded_;  // buffers that were files or data URIs
};

/// Bytes of base64 (RFC 4648, section 4); false where the text is none.
bool decode_base64(std::string_view text, std::string& bytes);
/// With %41 as A (RFC 3986, section 2.1).
std::string decode_percent(std::string_view text);

}  // namespace shardwise::gltf
