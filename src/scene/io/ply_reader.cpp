// Our own PLY reader. It checks every count against the file's size before it allocates, and every index.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "mesh_formats.hpp"
#include "ply_header.hpp"
#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"
#include "triangulate.hpp"

namespace shardwise {
namespace ply {
namespace {

/// Reads scalars one after the other from the body, in either encoding; a row of an ascii file is a line.
class Cursor {
 public:
  Cursor(std::string_view bytes, const Header& header, const std::string& label)
      : bytes_(bytes),
        label_(label),
        encoding_(header.encoding),
        offset_(header.body_offset),
        next_line_(header.body_line) {}

  std::size_t remaining() const { return bytes_.size() - offset_; }

  /// Element and row that errors name.
  void begin_row(const Element& element, std::uint64_t row) {
    element_ = &element;
    row_ = row;
    if (encoding_ != PlyEncoding::ascii || element.properties.empty()) return;
    skip_blank_lines();
    if (remaining() == 0) fail(fmt::format("the file ends; the header says {} rows", element.count));
    line_number_ = next_line_++;
    const std::size_t end = std::min(bytes_.find('\n', offset_), bytes_.size());
    line_ = bytes_.substr(offset_, end - offset_);
    offset_ = std::min(end + 1, bytes_.size());
  }

  void end_row() {
    if (encoding_ != PlyEncoding::ascii) return;
    skip_blanks(line_);
    if (!line_.empty()) fail(fmt::format("'{}' is more than the header says a row holds", shown(line_)));
  }

  /// Nothing may follow the last row.
  void finish() {
    if (encoding_ == PlyEncoding::ascii) skip_blank_lines();
    if (remaining() == 0) return;
    throw_data(fmt::format(
        "PLY file '{}': {} bytes follow the last row the header announces, from byte {}; its counts "
        "do not fit the file",
        label_, remaining(), offset_));
  }

  double read(Scalar type) {
    if (encoding_ == PlyEncoding::ascii) return read_text(type);
    switch (type) {
      case Scalar::int8:
        return raw<std::int8_t>();
      case Scalar::uint8:
        return raw<std::uint8_t>();
      case Scalar::int16:
        return raw<std::int16_t>();
      case Scalar::uint16:
        return raw<std::uint16_t>();
      case Scalar::int32:
        return raw<std::int32_t>();
      case Scalar::uint32:
        return raw<std::uint32_t>();
      case Scalar::float32:
        return raw<float>();
      case Scalar::float64:
        return raw<double>();
    }
    return 0;
  }

  /// Integers of every PLY type are exact in a double.
  std::int64_t read_count(const Property& property) {
    const double value = read(property.count_type);
    if (!(value >= 0 && value < 4294967296.0)) {
      fail(fmt::format("list '{}' has the {} count {}", property.name, value < 0 ? "negative" : "impossible",
                       value));
    }
    const auto count = static_cast<std::int64_t>(value);
    const std::size_t left = encoding_ == PlyEncoding::ascii ? line_.size() : remaining();
    const std::size_t each = encoding_ == PlyEncoding::ascii ? 2 : size_of(property.type);
    if (static_cast<std::uint64_t>(count) > left / each) {
      fail(fmt::format(
          "list '{}' has {} entries, more than the {} bytes left can hold; the {} is truncated or the "
          "count wrong",
          property.name, count, left, encoding_ == PlyEncoding::ascii ? "line" : "file"));
    }
    return count;
  }

  [[noreturn]] void fail(const std::string& what) const {
    const std::string place = encoding_ == PlyEncoding::ascii ? fmt::format("line {}", line_number_)
                                                              : fmt::format("byte {}", offset_);
    throw_data(fmt::format("PLY file '{}', {}, {} {}: {}", label_, place, element_->name, row_, what));
  }

 private:
  static void skip_blanks(std::string_view& text) {
    while (!text.empty() && (text[0] == ' ' || text[0] == '\t' || text[0] == '\r')) text.remove_prefix(1);
  }
  static std::string_view shown(std::string_view text) { return text.substr(0, 40); }

  void skip_blank_lines() {
    while (offset_ < bytes_.size()) {
      const char c = bytes_[offset_];
      if (c == '\n') {
        ++next_line_;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        // A line that begins with blanks is found again from its first word: nothing but blanks was passed.
        break;
      }
      ++offset_;
    }
    line_number_ = next_line_;
  }

  template <class T>
  double raw() {
    if (remaining() < sizeof(T)) {
      fail(fmt::format("the file ends {} bytes early; the header says {} rows", sizeof(T) - remaining(),
                       element_->count));
    }
    char buffer[sizeof(T)];
    std::memcpy(buffer, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    const bool big = encoding_ == PlyEncoding::binary_big_endian;
    if (big != (std::endian::native == std::endian::big)) std::reverse(buffer, buffer + sizeof(T));
    T value;
    std::memcpy(&value, buffer, sizeof(T));
    return static_cast<double>(value);
  }

  double read_text(Scalar type) {
    skip_blanks(line_);
    if (line_.empty()) fail("the line has fewer values than the header says");
    std::size_t length = 0;
    while (length < line_.size() && line_[length] != ' ' && line_[length] != '\t' && line_[length] != '\r')
      ++length;
    const std::string_view word = line_.substr(0, length);
    line_.remove_prefix(length);
    const std::string_view number = word.size() > 1 && word[0] == '+' ? word.substr(1) : word;
    double value = 0;
    // A float32 is parsed as one: through a double it would be rounded twice.
    const char* const end = number.data() + number.size();
    std::from_chars_result parsed{};
    if (type == Scalar::float32) {
      float single = 0;
      parsed = std::from_chars(number.data(), end, single);
      value = single;
    } else {
      parsed = std::from_chars(number.data(), end, value);
    }
    if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument) {
      fail(fmt::format("'{}' is not a number", shown(word)));
    }
    if (parsed.ec == std::errc::result_out_of_range) value = underflows(number) ? 0 : HUGE_VAL;
    if (is_integer(type) && value != std::floor(value))
      fail(fmt::format("'{}' is not an integer", shown(word)));
    return value;
  }

  /// from_chars says "out of range" for numbers too small, too.
  static bool underflows(std::string_view number) {
    const std::size_t exponent = number.find_first_of("eE");
    return exponent != std::string_view::npos ? number.substr(exponent + 1, 1) == "-"
                                              : number.find('.') != number.npos;
  }

  std::string_view bytes_;
  const std::string& label_;
  PlyEncoding encoding_;
  std::size_t offset_;
  std::size_t next_line_;
  std::size_t line_number_ = 0;
  std::string_view line_;  // what is left of an ascii row
  const Element* element_ = nullptr;
  std::uint64_t row_ = 0;
};

/// Where a vertex property goes; -1: nowhere.
enum Slot { kNowhere = -1, kX, kY, kZ, kNx, kNy, kNz, kU, kV, kSlots };

Slot slot_of(const Property& property) {
  static constexpr struct {
    std::string_view name;
    Slot slot;
  } names[] = {{"x", kX}, {"y", kY}, {"z", kZ}, {"nx", kNx}, {"ny", kNy},       {"nz", kNz},
               {"u", kU}, {"v", kV}, {"s", kU}, {"t", kV},   {"texture_u", kU}, {"texture_v", kV}};
  if (property.is_list) return kNowhere;
  for (const auto& entry : names) {
    if (entry.name == property.name) return entry.slot;
  }
  return kNowhere;
}

void skip(Cursor& cursor, const Property& property) {
  if (!property.is_list) {
    cursor.read(property.type);
    return;
  }
  const std::int64_t count = cursor.read_count(property);
  for (std::int64_t i = 0; i < count; ++i) cursor.read(property.type);
}

void read_vertices(Cursor& cursor, const Element& element, const std::string& label, FileMesh& shape) {
  Mesh& mesh = shape.mesh;
  std::vector<Slot> slots;
  bool has[kSlots] = {};
  shape.stored_as_float = true;
  for (const Property& property : element.properties) {
    slots.push_back(slot_of(property));
    if (slots.back() == kNowhere) continue;
    has[slots.back()] = true;
    if (slots.back() <= kZ && property.type != Scalar::float32) shape.stored_as_float = false;
  }
  if (!has[kX] || !has[kY] || !has[kZ]) {
    throw_data(fmt::format("PLY file '{}': element vertex lacks the property {}", label,
                           !has[kX]   ? "x"
                           : !has[kY] ? "y"
                                      : "z"));
  }
  const bool normals = has[kNx] && has[kNy] && has[kNz], uv = has[kU] && has[kV];
  std::vector<Vec3d> positions;
  positions.reserve(element.count);
  if (normals) mesh.vertex_normals.reserve(element.count);
  if (uv) mesh.uv.reserve(element.count);
  for (std::uint64_t row = 0; row < element.count; ++row) {
    cursor.begin_row(element, row);
    double value[kSlots] = {};
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == kNowhere) {
        skip(cursor, element.properties[i]);
      } else {
        value[slots[i]] = cursor.read(element.properties[i].type);
      }
    }
    cursor.end_row();
    positions.push_back({value[kX], value[kY], value[kZ]});
    if (normals) mesh.vertex_normals.push_back(to_float({value[kNx], value[kNy], value[kNz]}));
    if (uv) mesh.uv.push_back({static_cast<float>(value[kU]), static_cast<float>(value[kV])});
  }
  set_positions(shape, std::move(positions));
}

/// Triangulated later: the vertices may follow in the file.

Polygons read_faces(Cursor& cursor, const Element& element, std::uint64_t vertex_count,
                    const std::string& label) {
  const Property* indices = nullptr;
  for (const Property& property : element.properties) {
    if (property.name == "vertex_indices" || property.name == "vertex_index") indices = &property;
  }
  if (!indices || !indices->is_list || !is_integer(indices->type)) {
    throw_data(
        fmt::format("PLY file '{}': element face lacks an integer list property vertex_indices", label));
  }
  Polygons polygons;
  polygons.sizes.reserve(element.count);
  polygons.corners.reserve(element.count * 3);
  for (std::uint64_t row = 0; row < element.count; ++row) {
    cursor.begin_row(element, row);
    for (const Property& property : element.properties) {
      if (&property != indices) {
        skip(cursor, property);
        continue;
      }
      const std::int64_t count = cursor.read_count(property);
      if (count < 3) cursor.fail(fmt::format("a face needs 3 corners or more (got {})", count));
      if (count > static_cast<std::int64_t>(kMaxPolygonCorners)) {
        cursor.fail(
            fmt::format("a face may have at most {} corners (got {}); split it", kMaxPolygonCorners, count));
      }
      for (std::int64_t i = 0; i < count; ++i) {
        const double index = cursor.read(property.type);
        if (!(index >= 0 && index < static_cast<double>(vertex_count))) {
          cursor.fail(fmt::format("corner {} uses vertex {}, but there are {} vertices, counted from 0", i,
                                  index, vertex_count));
        }
        polygons.corners.push_back(static_cast<std::int32_t>(index));
      }
      polygons.sizes.push_back(static_cast<std::int32_t>(count));
    }
    cursor.end_row();
  }
  return polygons;
}

/// Before anything is allocated: a row needs some bytes, so the counts bound the file's size from below.
void check_counts(const Header& header, std::size_t body_bytes, const std::string& label) {
  std::uint64_t left = body_bytes + (header.encoding == PlyEncoding::ascii ? 1 : 0);
  for (const Element& element : header.elements) {
    const std::uint64_t row_bytes = element.min_row_bytes(header.encoding);
    if (row_bytes > 0 && element.count > left / row_bytes) {
      throw_data(fmt::format(
          "PLY file '{}': the header says {} rows of element {}, {} bytes each or more, but {} bytes "
          "are left; the file is truncated or the count wrong",
          label, element.count, element.name, row_bytes, left));
    }
    left -= element.count * row_bytes;
    if (element.count > std::numeric_limits<std::int32_t>::max() && row_bytes > 0) {
      throw_data(fmt::format("PLY file '{}': {} rows of element {} do not fit int32", label, element.count,
                             element.name));
    }
  }
}

}  // namespace
}  // namespace ply

FileMesh parse_ply_file(std::string_view bytes, const std::string& label, std::vector<std::string>* notes) {
  using namespace ply;
  const Header header = parse_header(bytes, label);
  const Element* vertices = nullptr;
  const Element* faces = nullptr;
  for (const Element& element : header.elements) {
    if (element.name == "vertex") vertices = &element;
    if (element.name == "face") faces = &element;
  }
  if (!vertices || !faces) {
    throw_data(fmt::format("PLY file '{}' has no element '{}'; a triangle mesh needs vertices and faces",
                           label, vertices ? "face" : "vertex"));
  }
  check_counts(header, bytes.size() - header.body_offset, label);

  FileMesh shape;
  Polygons polygons;
  Cursor cursor(bytes, header, label);
  for (const Element& element : header.elements) {
    if (&element == vertices) {
      read_vertices(cursor, element, label, shape);
    } else if (&element == faces) {
      polygons = read_faces(cursor, element, vertices->count, label);
    } else if (!element.properties.empty()) {
      for (std::uint64_t row = 0; row < element.count; ++row) {
        cursor.begin_row(element, row);
        for (const Property& property : element.properties) skip(cursor, property);
        cursor.end_row();
      }
    }
  }
  cursor.finish();
  PolygonCount count;
  add_polygons(shape, polygons, count);
  count.note(fmt::format("PLY file '{}'", label), notes);
  Mesh& mesh = shape.mesh;
  if (!mesh.uv.empty()) mesh.face_uv = mesh.faces;
  if (mesh.face_uv.empty()) mesh.uv.clear();  // uv that no face uses
  return shape;
}

Mesh parse_ply(std::string_view bytes, const std::string& label, std::vector<std::string>* notes) {
  return parse_ply_file(bytes, label, notes).mesh;
}

Mesh read_ply(const std::filesystem::path& path, std::vector<std::string>* notes) {
  Mesh mesh = parse_ply(read_whole_file(path, "PLY file"), path.string(), notes);
  mesh.name = path.stem().string();
  return mesh;
}

}  // namespace shardwise
