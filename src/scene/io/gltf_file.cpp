#include "gltf_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::gltf {
namespace {

static_assert(std::endian::native == std::endian::little, "the reader copies little-endian numbers");

constexpr std::size_t kHeader = 12, kChunkHeader = 8;
constexpr std::uint32_t kJsonChunk = 0x4e4f534a, kBinChunk = 0x004e4942;

enum Component { kInt8 = 5120, kUint8, kInt16, kUint16, kUint32 = 5125, kFloat };

std::size_t bytes_of(std::size_t component) {
  switch (component) {
    case kInt8:
    case kUint8:
      return 1;
    case kInt16:
    case kUint16:
      return 2;
    case kUint32:
    case kFloat:
      return 4;
    default:
      return 0;
  }
}

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// Section 3.6.2.2 of the specification: normalized integers are c / max, not below -1.
double component_at(const char* at, int component, bool normalized) {
  switch (component) {
    case kInt8:
      return normalized ? std::max(load<std::int8_t>(at) / 127.0, -1.0) : load<std::int8_t>(at);
    case kUint8:
      return normalized ? load<std::uint8_t>(at) / 255.0 : load<std::uint8_t>(at);
    case kInt16:
      return normalized ? std::max(load<std::int16_t>(at) / 32767.0, -1.0) : load<std::int16_t>(at);
    case kUint16:
      return normalized ? load<std::uint16_t>(at) / 65535.0 : load<std::uint16_t>(at);
    case kUint32:
      return load<std::uint32_t>(at);
    default:
      return load<float>(at);
  }
}

int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

bool decode_base64(std::string_view text, std::string& bytes) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return false;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit < 0) return false;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    have += 6;
    if (have >= 8) {
      have -= 8;
      bytes += static_cast<char>(bits >> have & 0xff);
    }
  }
  return true;
}

std::string decode_percent(std::string_view text) {
  const auto hex = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      result += static_cast<char>(16 * hex(text[i + 1]) + hex(text[i + 2]));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

File::File(std::string_view bytes, std::filesystem::path folder, std::string label)
    : folder_(std::move(folder)), label_(std::move(label)) {
  std::string_view json = bytes;
  if (bytes.substr(0, 4) == "glTF") {
    is_binary_ = true;
    const auto bad = [&](const std::string& what) {
      throw_data(fmt::format("glTF file '{}': {}", label_, what));
    };
    if (bytes.size() < kHeader + kChunkHeader) bad("it ends inside its header; it is truncated");
    if (const auto version = load<std::uint32_t>(bytes.data() + 4); version != 2) {
      bad(fmt::format("it is of version {}; this reader knows version 2", version));
    }
    if (const auto length = load<std::uint32_t>(bytes.data() + 8); length != bytes.size()) {
      bad(fmt::format("its header says {} bytes and it has {}; it is truncated or damaged", length,
                      bytes.size()));
    }
    std::size_t at = kHeader;
    for (int chunk = 0; at < bytes.size(); ++chunk) {
      if (bytes.size() - at < kChunkHeader) bad(fmt::format("a chunk's header is cut at byte {}", at));
      const auto size = load<std::uint32_t>(bytes.data() + at);
      const auto kind = load<std::uint32_t>(bytes.data() + at + 4);
      at += kChunkHeader;
      if (size > bytes.size() - at) {
        bad(fmt::format("the chunk at byte {} says {} bytes, {} are left; it is truncated or damaged",
                        at - kChunkHeader, size, bytes.size() - at));
      }
      if (chunk == 0 && kind != kJsonChunk) bad("its first chunk is not JSON");
      if (chunk == 0) json = bytes.substr(at, size);
      if (chunk == 1 && kind == kBinChunk) binary_ = bytes.substr(at, size);
      at += size;
    }
  }
  root_ = Json::parse(json, nullptr, true);
  if (!root_.is_object()) throw_data(fmt::format("'{}' is not a glTF file: its JSON is no object", label_));
}

void File::fail(const std::string& path, const std::string& what) const {
  throw_data(fmt::format("glTF file '{}', {}: {}", label_, path, what));
}

std::size_t File::size(const char* array) const {
  const auto found = root_.find(array);
  if (found == root_.end()) return 0;
  if (!found->is_array()) fail(array, "is not an array");
  return found->size();
}

const Json& File::item(const char* array, std::size_t index, const std::string& used_by) const {
  const std::size_t count = size(array);
  if (index >= count) {
    fail(used_by, fmt::format("uses {}[{}], but there are {}, counted from 0", array, index, count));
  }
  const Json& found = root_.at(array).at(index);
  if (!found.is_object()) fail(fmt::format("{}[{}]", array, index), "is not an object");
  return found;
}

std::size_t File::whole(const Json& object, const char* key, const std::string& path,
                        std::size_t fallback) const {
  const auto found = object.find(key);
  if (found == object.end()) return fallback;
  if (found->is_number_unsigned()) return found->get<std::size_t>();
  if (found->is_number_float()) {  // some exporters write 3.0
    const double value = found->get<double>();
    if (value >= 0 && value < 0x1p53 && value == std::floor(value)) return static_cast<std::size_t>(value);
  }
  fail(path, fmt::format("{} must be a whole number from 0 (got {})", key, found->dump().substr(0, 40)));
}

std::size_t File::whole(const Json& object, const char* key, const std::string& path) const {
  if (!object.contains(key)) fail(path, fmt::format("has no {}", key));
  return whole(object, key, path, 0);
}

const Json* File::array(const Json& object, const char* key, const std::string& path) const {
  const auto found = object.find(key);
  if (found == object.end()) return nullptr;
  if (!found->is_array()) fail(path, fmt::format("{} is not an array", key));
  return &*found;
}

bool File::numbers(const Json& object, const char* key, const std::string& path, std::size_t count,
                   double* values) const {
  const Json* const found = array(object, key, path);
  if (!found) return false;
  if (found->size() != count) {
    fail(path, fmt::format("{} must have {} numbers (got {})", key, count, found->size()));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Json& value = (*found)[i];
    if (!value.is_number()) fail(path, fmt::format("{}[{}] is not a number", key, i));
    values[i] = value.get<double>();
    if (!is_finite(values[i])) fail(path, fmt::format("{}[{}] is not finite", key, i));
  }
  return true;
}

std::string File::text(const Json& object, const char* key) const {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string_view File::buffer(std::size_t index, const std::string& used_by) {
  const Json& object = item("buffers", index, used_by);
  const std::string path = fmt::format("buffers[{}]", index);
  const std::size_t length = whole(object, "byteLength", path);
  std::string_view bytes;
  if (!object.contains("uri")) {
    if (!is_binary_ || index != 0) fail(path, "has no uri, and is not the binary chunk of a GLB file");
    bytes = binary_;
  } else {
    const auto known = loaded_.find(index);
    if (known == loaded_.end()) {
      std::string uri = text(object, "uri");
      std::string content;
      if (uri.starts_with("data:")) {
        const std::size_t comma = uri.find(',');
        if (comma == std::string::npos || !uri.substr(0, comma).ends_with(";base64") ||
            !decode_base64(std::string_view(uri).substr(comma + 1), content)) {
          fail(path, "its data: uri is not base64");
        }
      } else {
        if (uri.find("://") != std::string::npos) {
          fail(path, fmt::format("'{}' is not a file beside the scene; fetch it first", uri.substr(0, 80)));
        }
        uri = decode_percent(uri);
        std::replace(uri.begin(), uri.end(), '\\', '/');
        if (uri.empty() || uri.find('\0') != std::string::npos) fail(path, "its uri names no file");
        content = read_whole_file(folder_ / uri, "glTF buffer");
      }
      bytes = loaded_.emplace(index, std::move(content)).first->second;
    } else {
      bytes = known->second;
    }
  }
  if (length > bytes.size()) {
    fail(path,
         fmt::format("byteLength is {}, but {} bytes are there; it is truncated", length, bytes.size()));
  }
  return bytes.substr(0, length);
}

File::View File::view_of(std::size_t accessor, const char* type, std::size_t components) {
  const std::string path = fmt::format("accessors[{}]", accessor);
  const Json& object = item("accessors", accessor, "a primitive");
  if (text(object, "type") != type) {
    fail(path, fmt::format("must be of type {} (got '{}')", type, text(object, "type").substr(0, 40)));
  }
  if (object.contains("sparse")) {
    fail(path, "is sparse, which this reader does not know; export the mesh without sparse accessors");
  }
  if (!object.contains("bufferView")) {
    fail(path, "has no bufferView, so its values are all zero; it is compressed or damaged, export it plain");
  }
  const std::size_t component = whole(object, "componentType", path);
  View view{};
  view.component_bytes = bytes_of(component);
  if (view.component_bytes == 0) fail(path, fmt::format("componentType {} is not known", component));
  view.component = static_cast<int>(component);
  view.count = whole(object, "count", path);
  if (const auto normalized = object.find("normalized"); normalized != object.end()) {
    if (!normalized->is_boolean()) {
      fail(path, fmt::format("normalized must be true or false (got {})", normalized->dump().substr(0, 40)));
    }
    view.normalized = normalized->get<bool>();
  }

  const std::size_t view_index = whole(object, "bufferView", path);
  const Json& buffer_view = item("bufferViews", view_index, path);
  const std::string view_path = fmt::format("bufferViews[{}]", view_index);
  const std::string_view bytes = buffer(whole(buffer_view, "buffer", view_path), view_path);
  const std::size_t view_offset = whole(buffer_view, "byteOffset", view_path, 0);
  const std::size_t view_length = whole(buffer_view, "byteLength", view_path);
  if (view_offset > bytes.size() || view_length > bytes.size() - view_offset) {
    fail(view_path,
         fmt::format("bytes {} to {} lie outside its buffer of {}", view_offset,
                     static_cast<double>(view_offset) + static_cast<double>(view_length), bytes.size()));
  }
  const std::size_t element = view.component_bytes * components;
  view.stride = whole(buffer_view, "byteStride", view_path, 0);
  if (view.stride == 0) view.stride = element;
  if (view.stride < element || view.stride > 252) {
    fail(view_path, fmt::format("byteStride {} does not fit elements of {} bytes", view.stride, element));
  }
  const std::size_t offset = whole(object, "byteOffset", path, 0);
  // The last element may end before its stride does.
  const std::size_t left = offset <= view_length ? view_length - offset : 0;
  if (view.count > 0 && (left < element || view.count - 1 > (left - element) / view.stride)) {
    fail(path, fmt::format("{} elements of {} bytes from byte {} lie outside bufferViews[{}] of {} bytes",
                           view.count, view.stride, offset, view_index, view_length));
  }
  if (view.count > std::numeric_limits<std::int32_t>::max()) {
    fail(path, fmt::format("{} elements do not fit int32", view.count));
  }
  view.data = bytes.data() + view_offset + std::min(offset, view_length);
  return view;
}

std::vector<Vec3d> File::read_points(std::size_t accessor) {
  const View view = view_of(accessor, "VEC3", 3);
  std::vector<Vec3d> points(view.count);
  for (std::size_t i = 0; i < view.count; ++i) {
    for (int axis = 0; axis < 3; ++axis) {
      const char* const at =
          view.data + i * view.stride + static_cast<std::size_t>(axis) * view.component_bytes;
      points[i].set(axis, component_at(at, view.component, view.normalized));
    }
  }
  return points;
}

std::vector<std::uint32_t> File::read_indices(std::size_t accessor, std::size_t limit) {
  const View view = view_of(accessor, "SCALAR", 1);
  const std::string path = fmt::format("accessors[{}]", accessor);
  if (view.component != kUint8 && view.component != kUint16 && view.component != kUint32) {
    fail(path, fmt::format("indices must be unsigned integers (componentType is {})", view.component));
  }
  std::vector<std::uint32_t> indices(view.count);
  for (std::size_t i = 0; i < view.count; ++i) {
    indices[i] = static_cast<std::uint32_t>(component_at(view.data + i * view.stride, view.component, false));
    if (indices[i] >= limit) {
      fail(path,
           fmt::format("element {} uses vertex {}, but there are {}, counted from 0", i, indices[i], limit));
    }
  }
  return indices;
}

}  // namespace shardwise::gltf
