#include "ply_header.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "shardwise/runtime/error.hpp"

namespace shardwise::ply {
namespace {

constexpr std::size_t kMaxLine = 4096;  // of a header; longer ones are no header

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t i = 0;
  while (i < line.size()) {
    while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
    const std::size_t begin = i;
    while (i < line.size() && line[i] != ' ' && line[i] != '\t') ++i;
    if (i > begin) words.push_back(line.substr(begin, i - begin));
  }
  return words;
}

std::optional<Scalar> scalar_of(std::string_view word) {
  static constexpr struct {
    std::string_view name;
    Scalar scalar;
  } names[] = {
      {"char", Scalar::int8},       {"int8", Scalar::int8},       {"uchar", Scalar::uint8},
      {"uint8", Scalar::uint8},     {"short", Scalar::int16},     {"int16", Scalar::int16},
      {"ushort", Scalar::uint16},   {"uint16", Scalar::uint16},   {"int", Scalar::int32},
      {"int32", Scalar::int32},     {"uint", Scalar::uint32},     {"uint32", Scalar::uint32},
      {"float", Scalar::float32},   {"float32", Scalar::float32}, {"double", Scalar::float64},
      {"float64", Scalar::float64},
  };
  for (const auto& entry : names) {
    if (entry.name == word) return entry.scalar;
  }
  return std::nullopt;
}

}  // namespace

std::size_t size_of(Scalar scalar) {
  switch (scalar) {
    case Scalar::int8:
    case Scalar::uint8:
      return 1;
    case Scalar::int16:
    case Scalar::uint16:
      return 2;
    case Scalar::int32:
    case Scalar::uint32:
    case Scalar::float32:
      return 4;
    case Scalar::float64:
      return 8;
  }
  return 0;
}

std::uint64_t Element::min_row_bytes(PlyEncoding encoding) const {
  std::uint64_t bytes = 0;
  for (const Property& property : properties) {
    if (encoding == PlyEncoding::ascii) {
      bytes += 2;  // one character and what ends it; the last one of a file may be missing
    } else {
      bytes += size_of(property.is_list ? property.count_type : property.type);
    }
  }
  return bytes;
}

Header parse_header(std::string_view bytes, const std::string& label) {
  Header header;
  std::size_t offset = 0, line_number = 0;
  bool has_format = false;
  const auto fail = [&](const std::string& what) {
    throw_data(fmt::format("PLY file '{}', header line {}: {}", label, line_number, what));
  };
  while (true) {
    const std::size_t end = bytes.substr(0, std::min(bytes.size(), offset + kMaxLine)).find('\n', offset);
    ++line_number;
    if (end == std::string_view::npos) {
      if (line_number == 1)
        throw_data(fmt::format("'{}' is not a PLY file: it does not begin with 'ply'", label));
      fail("no 'end_header'; the file is truncated or not a PLY file");
    }
    std::string_view line = bytes.substr(offset, end - offset);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    offset = end + 1;
    const auto words = words_of(line);
    if (line_number == 1) {
      if (words.size() != 1 || words[0] != "ply") {
        throw_data(fmt::format("'{}' is not a PLY file: it does not begin with 'ply'", label));
      }
      continue;
    }
    if (words.empty() || words[0] == "comment" || words[0] == "obj_info") continue;
    if (words[0] == "end_header") break;
    if (words[0] == "format") {
      if (words.size() != 3 || words[2] != "1.0")
        fail(fmt::format("'{}' is no format this reader knows (1.0)", line));
      if (words[1] == "ascii") {
        header.encoding = PlyEncoding::ascii;
      } else if (words[1] == "binary_little_endian") {
        header.encoding = PlyEncoding::binary_little_endian;
      } else if (words[1] == "binary_big_endian") {
        header.encoding = PlyEncoding::binary_big_endian;
      } else {
        fail(fmt::format("format '{}' is none of ascii, binary_little_endian, binary_big_endian", words[1]));
      }
      has_format = true;
    } else if (words[0] == "element") {
      if (words.size() != 3) fail(fmt::format("'{}' should read 'element NAME COUNT'", line));
      Element element;
      element.name = std::string(words[1]);
      const auto parsed = std::from_chars(words[2].data(), words[2].data() + words[2].size(), element.count);
      if (parsed.ec != std::errc{} || parsed.ptr != words[2].data() + words[2].size()) {
        fail(fmt::format("'{}' is no count of element '{}'", words[2], element.name));
      }
      for (const Element& other : header.elements) {
        if (other.name == element.name) fail(fmt::format("element '{}' stands twice", element.name));
      }
      header.elements.push_back(std::move(element));
    } else if (words[0] == "property") {
      if (header.elements.empty()) fail("a property before any element");
      Property property;
      const bool is_list = words.size() == 5 && words[1] == "list";
      if (!is_list && words.size() != 3) {
        fail(fmt::format("'{}' should read 'property TYPE NAME' or 'property list TYPE TYPE NAME'", line));
      }
      const auto type_of = [&](std::string_view word) {
        const auto scalar = scalar_of(word);
        if (!scalar) fail(fmt::format("'{}' is no PLY type", word));
        return *scalar;
      };
      property.is_list = is_list;
      if (is_list) {
        property.count_type = type_of(words[2]);
        if (!is_integer(property.count_type))
          fail(fmt::format("a list's count cannot be of type '{}'", words[2]));
      }
      property.type = type_of(words[words.size() - 2]);
      property.name = std::string(words.back());
      for (const Property& other : header.elements.back().properties) {
        if (other.name == property.name) fail(fmt::format("property '{}' stands twice", property.name));
      }
      header.elements.back().properties.push_back(std::move(property));
    } else {
      fail(fmt::format("'{}' is no PLY keyword", words[0]));
    }
  }
  if (!has_format) throw_data(fmt::format("PLY file '{}': the header has no 'format' line", label));
  header.body_offset = offset;
  header.body_line = line_number + 1;
  return header;
}

}  // namespace shardwise::ply
