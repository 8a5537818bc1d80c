#include "mitsuba_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shardwise/runtime/error.hpp"

namespace shardwise::mitsuba {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_separator(char c) {
  return c == ' ' || c == ',' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

std::size_t Attributes::line_at(std::ptrdiff_t offset) const {
  const auto end =
      text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text_.size()));
  return 1 + static_cast<std::size_t>(std::count(text_.begin(), end, '\n'));
}

std::size_t Attributes::line_of(pugi::xml_node node) const {
  return line_at(node.offset_debug());
}

void Attributes::fail(pugi::xml_node node, const std::string& what) const {
  throw_data(fmt::format("scene '{}', line {}, <{}>: {}", label_, line_of(node), node.name(), what));
}

std::string Attributes::text(pugi::xml_node node, const char* attribute) const {
  const std::string_view raw = node.attribute(attribute).value();
  std::string result;
  for (std::size_t i = 0; i < raw.size();) {
    if (raw[i] != '$') {
      result += raw[i++];
      continue;
    }
    std::size_t end = i + 1;
    while (end < raw.size() && is_name_character(raw[end])) ++end;
    const std::string name(raw.substr(i + 1, end - i - 1));
    const auto found = defaults_.find(name);
    if (found == defaults_.end()) {
      fail(node, fmt::format("attribute {} uses ${}, which no <default> defines", attribute, name));
    }
    result += found->second;
    i = end;
  }
  return result;
}

std::vector<double> Attributes::numbers(pugi::xml_node node, const char* attribute) const {
  const std::string value = text(node, attribute);
  std::vector<double> result;
  const char* at = value.data();
  const char* const end = at + value.size();
  while (true) {
    while (at != end && is_separator(*at)) ++at;
    if (at == end) break;
    if (*at == '+') ++at;
    double number = 0;
    const auto parsed = std::from_chars(at, end, number);
    if (parsed.ec != std::errc{} || (parsed.ptr != end && !is_separator(*parsed.ptr))) {
      fail(node, fmt::format("attribute {}=\"{}\" is not a list of numbers", attribute, value));
    }
    at = parsed.ptr;
    result.push_back(number);
  }
  return result;
}

double Attributes::number(pugi::xml_node node, const char* attribute, double fallback) const {
  if (!has(node, attribute)) return fallback;
  const auto values = numbers(node, attribute);
  if (values.size() != 1) {
    fail(node, fmt::format("attribute {} must be one number (got \"{}\")", attribute, text(node, attribute)));
  }
  return values[0];
}

bool Attributes::boolean(pugi::xml_node node, const char* attribute) const {
  const std::string value = text(node, attribute);
  if (value != "true" && value != "false") {
    fail(node, fmt::format("attribute {} must be true or false (got \"{}\")", attribute, value));
  }
  return value == "true";
}

}  // namespace shardwise::mitsuba
