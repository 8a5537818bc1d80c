#include "mitsuba_transform.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace shardwise::mitsuba {
namespace {

/// value="a b c", value="a" (all three) or x, y, z with `fallback` for those left out.
Vec3d read_vector(pugi::xml_node node, const Attributes& attributes, double fallback) {
  if (!attributes.has(node, "value")) {
    return {attributes.number(node, "x", fallback), attributes.number(node, "y", fallback),
            attributes.number(node, "z", fallback)};
  }
  const auto values = attributes.numbers(node, "value");
  if (values.size() == 1) return {values[0], values[0], values[0]};
  if (values.size() != 3)
    attributes.fail(node, fmt::format("value must be 1 or 3 numbers (got {})", values.size()));
  return {values[0], values[1], values[2]};
}

Vec3d read_point(pugi::xml_node node, const Attributes& attributes, const char* name) {
  const auto values = attributes.numbers(node, name);
  if (values.size() != 3)
    attributes.fail(node, fmt::format("{} must be 3 numbers (got {})", name, values.size()));
  return {values[0], values[1], values[2]};
}

/// Rodrigues' formula, R = cos I + sin [k]x + (1 - cos) k k^T; multiples of 90 degrees are exact.
Transform rotation(Vec3d axis, double degrees) {
  const Vec3d k = normalized(axis);
  const double quarter = degrees / 90;
  double s = std::sin(degrees * std::numbers::pi / 180), c = std::cos(degrees * std::numbers::pi / 180);
  if (quarter == std::floor(quarter)) {
    const double turns = quarter - 4 * std::floor(quarter / 4);
    s = turns == 1 ? 1 : turns == 3 ? -1 : 0;
    c = turns == 0 ? 1 : turns == 2 ? -1 : 0;
  }
  const double v = 1 - c;
  Transform result;
  result.m = {c + v * k.x * k.x,
              v * k.x * k.y - s * k.z,
              v * k.x * k.z + s * k.y,
              0,
              v * k.y * k.x + s * k.z,
              c + v * k.y * k.y,
              v * k.y * k.z - s * k.x,
              0,
              v * k.z * k.x - s * k.y,
              v * k.z * k.y + s * k.x,
              c + v * k.z * k.z,
              0,
              0,
              0,
              0,
              1};
  return result;
}

/// Columns: left, up, forward (+z), origin.
Transform look_at(pugi::xml_node node, const Attributes& attributes) {
  const Vec3d origin = read_point(node, attributes, "origin"),
              target = read_point(node, attributes, "target"), up = read_point(node, attributes, "up");
  const Vec3d forward = normalized(target - origin);
  const Vec3d side = cross(up, forward);
  if (!(length(side) > 0)) attributes.fail(node, "up must not be parallel to target - origin");
  const Vec3d left = normalized(side), above = cross(forward, left);
  Transform result;
  result.m = {left.x, above.x, forward.x, origin.x, left.y, above.y, forward.y, origin.y,
              left.z, above.z, forward.z, origin.z, 0,      0,       0,         1};
  return result;
}

Transform read_matrix(pugi::xml_node node, const Attributes& attributes) {
  const auto values = attributes.numbers(node, "value");
  Transform result;
  if (values.size() == 16) {
    for (std::size_t i = 0; i < 16; ++i) result.m[i] = values[i];
  } else if (values.size() == 9) {
    for (std::size_t i = 0; i < 9; ++i) result.m[4 * (i / 3) + i % 3] = values[i];
  } else {
    attributes.fail(node, fmt::format("value must be 16 or 9 numbers, row by row (got {})", values.size()));
  }
  if (result(3, 0) != 0 || result(3, 1) != 0 || result(3, 2) != 0 || result(3, 3) != 1) {
    attributes.fail(node, fmt::format("the last row must be 0 0 0 1 (got {} {} {} {})", result(3, 0),
                                      result(3, 1), result(3, 2), result(3, 3)));
  }
  return result;
}

}  // namespace

Transform read_transform(pugi::xml_node node, const Attributes& attributes) {
  Transform result;
  for (const pugi::xml_node child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    const std::string name = child.name();
    Transform step;
    if (name == "translate") {
      step = Transform::translation(read_vector(child, attributes, 0));
    } else if (name == "scale") {
      step = Transform::scaling(read_vector(child, attributes, 1));
    } else if (name == "rotate") {
      const Vec3d axis = read_vector(child, attributes, 0);
      if (!(length(axis) > 0)) attributes.fail(child, "the axis must not be zero");
      if (!attributes.has(child, "angle")) attributes.fail(child, "attribute angle (degrees) is missing");
      step = rotation(axis, attributes.number(child, "angle", 0));
    } else if (name == "matrix") {
      step = read_matrix(child, attributes);
    } else if (name == "lookat" || name == "look_at" || name == "lookAt") {
      step = look_at(child, attributes);
    } else {
      attributes.fail(child, "is none of translate, rotate, scale, matrix, lookat");
    }
    result = step * result;
  }
  for (const double value : result.m) {
    if (!is_finite(value)) attributes.fail(node, "the transform is not finite");
  }
  return result;
}

}  // namespace shardwise::mitsuba
