#pragma once
// The header of a PLY file (G. Turk, "The PLY Polygon File Format", 1994): elements with their counts and
// properties.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwise/scene/scene_io.hpp"

namespace shardwise::ply {

enum class Scalar { int8, uint8, int16, uint16, int32, uint32, float32, float64 };

std::size_t size_of(Scalar scalar);
inline bool is_integer(Scalar scalar) {
  return scalar != Scalar::float32 && scalar != Scalar::float64;
}

struct Property {
  std::string name;
  Scalar type = Scalar::float32;
  bool is_list = false;
  Scalar count_type = Scalar::uint8;  // for lists
};

struct Element {
  std::string name;
  std::uint64_t count = 0;
  std::vector<Property> properties;

  /// Bytes of the smallest row that the encoding allows; lists are empty in it.
  std::uint64_t min_row_bytes(PlyEncoding encoding) const;
};

struct Header {
  PlyEncoding encoding = PlyEncoding::ascii;
  std::vector<Element> elements;
  std::size_t body_offset = 0;  // bytes
  std::size_t body_line = 1;    // line number of the body's first line, from 1
};

/// Throws a data error with label and line for anything that is not a PLY header.
Header parse_header(std::string_view bytes, const std::string& label);

}  // namespace shardwise::ply
