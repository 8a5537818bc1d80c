#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "mesh_formats.hpp"
#include "shardwise/runtime/error.hpp"
#include "text_numbers.hpp"

namespace shardwise {
namespace {

static_assert(std::endian::native == std::endian::little, "the reader copies little-endian floats");

constexpr std::size_t kHeader = 84, kFacet = 50;  // bytes: 80 of text and a count; normal, corners, 2 more

/// Triangles 0 1 2, 3 4 5, ... over the vertices that were read.
void number_faces(FileMesh& shape) {
  const auto corners = static_cast<std::int32_t>(shape.mesh.vertices.size());
  shape.mesh.faces.reserve(static_cast<std::size_t>(corners / 3));
  for (std::int32_t i = 0; i < corners; i += 3) shape.mesh.faces.push_back({i, i + 1, i + 2});
}

/// The count that a binary file of this size would have to have; nothing where no count fits.
bool has_binary_size(std::string_view bytes) {
  if (bytes.size() < kHeader) return false;
  std::uint32_t count;
  std::memcpy(&count, bytes.data() + kHeader - sizeof(count), sizeof(count));
  return bytes.size() == kHeader + kFacet * std::uint64_t{count};
}

FileMesh parse_binary(std::string_view bytes, const std::string& label, const std::string& stem) {
  const std::size_t count = (bytes.size() - kHeader) / kFacet;
  if (count > 0x7fffffff / 3) {
    throw_data(
        fmt::format("STL file '{}': the vertices of {} facets do not fit int32; split it", label, count));
  }
  FileMesh shape;
  shape.mesh.name = stem;
  shape.stored_as_float = true;
  shape.mesh.vertices.resize(3 * count);
  for (std::size_t i = 0; i < count; ++i) {
    const char* const corners = bytes.data() + kHeader + kFacet * i + sizeof(Vec3f);
    std::memcpy(shape.mesh.vertices.data() + 3 * i, corners, 3 * sizeof(Vec3f));
  }
  number_faces(shape);
  return shape;
}

/// Words over line ends, and the rest of a line for names.
class AsciiParser {
 public:
  AsciiParser(std::string_view bytes, const std::string& label, const std::string& stem)
      : rest_(bytes), label_(label), stem_(stem) {}

  std::vector<FileMesh> parse() {
    std::vector<FileMesh> shapes;
    while (true) {
      const std::string_view keyword = word();
      if (keyword.empty()) break;
      if (!is(keyword, "solid")) fail(fmt::format("'{}' stands where 'solid' should", shown(keyword)));
      shapes.push_back(read_solid());
    }
    return shapes;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_data(fmt::format("STL file '{}', line {}: {}", label_, line_, what));
  }

  /// Keywords are written in either case.
  static bool is(std::string_view word, std::string_view keyword) {
    return std::equal(word.begin(), word.end(), keyword.begin(), keyword.end(), [](char a, char b) {
      return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
    });
  }

  std::string_view word() {
    std::size_t begin = 0;
    while (begin < rest_.size() && (is_blank(rest_[begin]) || rest_[begin] == '\n')) {
      if (rest_[begin] == '\n') ++line_;
      ++begin;
    }
    rest_.remove_prefix(begin);
    std::size_t size = 0;
    while (size < rest_.size() && !is_blank(rest_[size]) && rest_[size] != '\n') ++size;
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }

  std::string_view rest_of_line() {
    const std::string_view line = rest_.substr(0, std::min(rest_.find('\n'), rest_.size()));
    rest_.remove_prefix(line.size());
    return trimmed(line);
  }

  void expect(std::string_view keyword) {
    const std::string_view found = word();
    if (found.empty()) fail(fmt::format("the file ends where '{}' should stand; it is truncated", keyword));
    if (!is(found, keyword)) fail(fmt::format("'{}' stands where '{}' should", shown(found), keyword));
  }

  double number() {
    const std::string_view text = word();
    if (text.empty()) fail("the file ends where a number should stand; it is truncated");
    const auto value = number_of(text);
    if (!value) fail(fmt::format("'{}' is not a number", shown(text)));
    return *value;
  }

  FileMesh read_solid() {
    FileMesh shape;
    shape.mesh.name = std::string(rest_of_line());
    if (shape.mesh.name.empty()) shape.mesh.name = stem_;
    std::vector<Vec3d> corners;
    while (true) {
      const std::string_view keyword = word();
      if (keyword.empty()) fail("the file ends inside a solid, before 'endsolid'; it is truncated");
      if (is(keyword, "endsolid")) break;
      if (!is(keyword, "facet")) {
        fail(fmt::format("'{}' stands where 'facet' or 'endsolid' should", shown(keyword)));
      }
      expect("normal");
      for (int i = 0; i < 3; ++i) number();
      expect("outer");
      expect("loop");
      for (int i = 0; i < 3; ++i) {
        expect("vertex");
        Vec3d corner;
        for (int axis = 0; axis < 3; ++axis) corner.set(axis, number());
        corners.push_back(corner);
      }
      expect("endloop");
      expect("endfacet");
    }
    rest_of_line();  // the name again
    if (corners.size() > 0x7fffffff) fail("more vertices than int32 counts");
    set_positions(shape, std::move(corners));
    number_faces(shape);
    return shape;
  }

  std::string_view rest_;
  const std::string& label_;
  const std::string& stem_;
  std::size_t line_ = 1;
};

}  // namespace

std::vector<FileMesh> parse_stl(std::string_view bytes, const std::string& label, const std::string& stem,
                                std::vector<std::string>*) {
  std::vector<FileMesh> shapes;
  std::string_view start = bytes.substr(0, 512);
  const bool begins_as_text =
      take_word(start).substr(0, 5) == "solid" || trimmed(bytes.substr(0, 512)).empty();
  if (has_binary_size(bytes)) {
    shapes.push_back(parse_binary(bytes, label, stem));
  } else if (begins_as_text || bytes.substr(0, 5) == "SOLID") {
    shapes = AsciiParser(bytes, label, stem).parse();
  } else if (bytes.size() < kHeader) {
    throw_data(
        fmt::format("'{}' is not an STL file: it does not begin with 'solid', and its {} bytes hold no "
                    "binary header of {}",
                    label, bytes.size(), kHeader));
  } else {
    std::uint32_t count;
    std::memcpy(&count, bytes.data() + kHeader - sizeof(count), sizeof(count));
    throw_data(
        fmt::format("STL file '{}' is truncated or damaged: it announces {} facets, {} bytes, and has {} "
                    "bytes",
                    label, count, kHeader + kFacet * std::uint64_t{count}, bytes.size()));
  }
  if (std::all_of(shapes.begin(), shapes.end(), [](const FileMesh& s) { return s.mesh.faces.empty(); })) {
    throw_data(fmt::format("STL file '{}' has no facets; give one with surfaces", label));
  }
  return shapes;
}

}  // namespace shardwise
