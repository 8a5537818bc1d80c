#include "values.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise::program {

double positive_value(const std::string& option, const std::string& text) {
  const double value = parse_number(text, option);
  if (!(value > 0)) throw_usage(fmt::format("{} must be above zero (found '{}')", option, text));
  return value;
}

std::int64_t count_value(const std::string& option, const std::string& text, std::int64_t least,
                         std::int64_t most) {
  // A sign is no part of a count: say what the range is, not that a character is wrong.
  if (text.size() > 1 && text[0] == '-' && text.find_first_not_of("0123456789.", 1) == std::string::npos) {
    throw_usage(fmt::format("{} must be at least {} (found '{}')", option, least, text));
  }
  const std::int64_t value = parse_count(text, option);
  if (value < least) throw_usage(fmt::format("{} must be at least {} (found '{}')", option, least, text));
  if (value > most)
    throw_usage(fmt::format("{} must be at most {} (found '{}')", option, count_text(most), text));
  return value;
}

Vec3d point_value(const std::string& option, const std::string& text) {
  const auto point = parse_point(text, option);
  return {point[0], point[1], point[2]};
}

std::string any_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "'" : i + 1 == words.size() ? " or '" : ", '") + words[i] + "'";
  }
  return text;
}

std::string word_value(const std::string& option, const std::string& text,
                       const std::vector<std::string>& words) {
  if (std::ranges::find(words, text) != words.end()) return text;
  const std::string near = nearest_word(text, words);
  throw_usage(fmt::format("{} knows no '{}'; {}give {}", option, text,
                          near.empty() ? "" : fmt::format("did you mean '{}'? ", near), any_of(words)));
}

}  // namespace shardwise::program
