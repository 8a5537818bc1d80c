#pragma once
// Words and numbers of text formats.

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace shardwise {

inline bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/// Takes blanks and then a word off the front of `text`; empty where there is none.
inline std::string_view take_word(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  std::size_t size = 0;
  while (size < text.size() && !is_blank(text[size])) ++size;
  const std::string_view word = text.substr(0, size);
  text.remove_prefix(size);
  return word;
}

/// Without blanks at both ends.
inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// The beginning of what a file holds, short enough for a message.
inline std::string shown(std::string_view text) {
  std::string result(text.substr(0, 40));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

/// Whether a number that from_chars calls "out of range" is too small, not too large.
inline bool underflows(std::string_view number) {
  const std::size_t exponent = number.find_first_of("eE");
  return exponent != std::string_view::npos ? number.substr(exponent + 1, 1) == "-"
                                            : number.find('.') != number.npos;
}

/// The nearest double of a whole word, any locale; infinite where it is too large. A float printed with 9
/// digits or fewer that are exact survives the way through the double.
inline std::optional<double> number_of(std::string_view word) {
  if (word.size() > 1 && word[0] == '+') word.remove_prefix(1);
  double value = 0;
  const char* const end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, value);
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument) return std::nullopt;
  if (parsed.ec == std::errc::result_out_of_range) return underflows(word) ? 0 : HUGE_VAL;
  return value;
}

}  // namespace shardwise
