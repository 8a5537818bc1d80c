#include "shardwise/runtime/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr Unit kSizeUnits[] = {
    {"", 1},
    {"k", 1000},
    {"K", 1000},
    {"M", 1000000},
    {"G", 1000000000},
    {"T", 1000000000000},
    {"Ki", std::uint64_t{1} << 10},
    {"Mi", std::uint64_t{1} << 20},
    {"Gi", std::uint64_t{1} << 30},
    {"Ti", std::uint64_t{1} << 40},
};

constexpr const char* kSizeAccepts =
    "a number with an optional k, M, G, T (decimal) or Ki, Mi, Gi, Ti (binary)";
constexpr const char* kNumberAccepts = "a finite number, such as 2.5 or -1e-3";

// A text being read, with everything that a refusal has to say.
struct Input {
  std::string_view text, option;
  std::string what;     // "a size in bytes"
  std::string accepts;  // "a number ... such as 64Mi"

  [[noreturn]] void refuse(const std::string& problem) const {
    throw_usage(fmt::format("{}: \"{}\" is not {}: {}; accepted: {}", option, text, what, problem, accepts));
  }
  // Character positions count from 1, as editors do.
  [[noreturn]] void refuse_at(std::size_t position) const {
    if (position >= text.size()) refuse(text.empty() ? "it is empty" : "it ends too early");
    refuse(fmt::format("unexpected \"{}\" at character {}", text.substr(position), position + 1));
  }
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A decimal number kept exactly: digits * 10^exponent.
struct Decimal {
  Wide digits = 0;
  int exponent = 0;
  std::size_t length = 0;  // characters read
};

Decimal read_decimal(const Input& input) {
  constexpr Wide full = ~Wide{0} / 10 - 1;
  const std::string_view text = input.text;
  Decimal number;
  std::size_t at = 0, seen = 0;
  const auto digit = [&](int step) {
    if (number.digits > full) input.refuse("it has more digits than can be kept");
    number.digits = number.digits * 10 + static_cast<Wide>(text[at] - '0');
    number.exponent += step;
    ++seen;
    ++at;
  };
  while (at < text.size() && is_digit(text[at])) digit(0);
  if (at < text.size() && text[at] == '.') {
    ++at;
    while (at < text.size() && is_digit(text[at])) digit(-1);
  }
  if (seen == 0) input.refuse_at(at < text.size() && text[0] == '.' && text.size() > 1 ? at : 0);
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t from = at + 1;
    if (from < text.size() && text[from] == '+') ++from;
    int exponent = 0;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), exponent);
    if (error != std::errc{} || std::abs(exponent) > 9999) input.refuse_at(at);
    number.exponent += exponent;
    at = static_cast<std::size_t>(end - text.data());
  }
  number.length = at;
  return number;
}

// number * factor as a whole number of at most `most`.
std::uint64_t whole_value(const Input& input, Decimal number, std::uint64_t factor, std::uint64_t most) {
  if (number.digits == 0) return 0;
  const auto too_large = [&] { input.refuse(fmt::format("it is above the largest, {}", most)); };
  while (number.exponent < 0 && number.digits % 10 == 0) {
    number.digits /= 10;
    ++number.exponent;
  }
  for (; number.exponent > 0; --number.exponent) {
    if (number.digits > most) too_large();
    number.digits *= 10;
  }
  // Divide what is left of 10^-exponent out of the factor by its twos and fives, so that nothing overflows.
  for (; number.exponent < 0; ++number.exponent) {
    for (const std::uint64_t prime : {2u, 5u}) {
      if (factor % prime == 0) {
        factor /= prime;
      } else if (number.digits % prime == 0) {
        number.digits /= prime;
      } else {
        input.refuse("it does not come to a whole number");
      }
    }
  }
  if (number.digits > most || number.digits * factor > most) too_large();
  return static_cast<std::uint64_t>(number.digits * factor);
}

std::uint64_t read_size(const Input& input, bool bytes, std::uint64_t most) {
  const Decimal number = read_decimal(input);
  std::string_view suffix = input.text.substr(number.length);
  if (bytes && suffix.ends_with('B')) suffix.remove_suffix(1);
  for (const Unit& unit : kSizeUnits) {
    if (suffix == unit.name) return whole_value(input, number, unit.factor, most);
  }
  input.refuse_at(number.length);
}

// A finite number from the front of `text`; the characters read go to `length`.
double read_number(const Input& input, std::size_t begin, std::size_t end, std::size_t* length) {
  std::size_t from = begin;
  if (from < end && input.text[from] == '+' && from + 1 < end && input.text[from + 1] != '-') ++from;
  double value = 0;
  const char* const data = input.text.data();
  const auto [stop, error] = std::from_chars(data + from, data + end, value);
  if (error == std::errc::result_out_of_range) {
    input.refuse(
        fmt::format("\"{}\" is outside the range of a 64-bit number", input.text.substr(begin, end - begin)));
  }
  if (error != std::errc{}) {
    if (begin == end && begin > 0) input.refuse(fmt::format("there is no number at character {}", begin + 1));
    input.refuse_at(begin);
  }
  if (!std::isfinite(value)) {
    input.refuse(fmt::format("\"{}\" at character {} is not finite", input.text.substr(begin, end - begin),
                             begin + 1));
  }
  *length = static_cast<std::size_t>(stop - data) - begin;
  return value;
}

std::vector<double> read_list(const Input& input) {
  std::vector<double> values;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = std::min(input.text.find(',', begin), input.text.size());
    std::size_t length = 0;
    values.push_back(read_number(input, begin, comma, &length));
    if (begin + length != comma) input.refuse_at(begin + length);
    if (comma == input.text.size()) return values;
    begin = comma + 1;
  }
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view option) {
  const Input input{text, option, "a size in bytes",
                    fmt::format("{} and an optional B, such as 64Mi", kSizeAccepts)};
  return read_size(input, true, std::numeric_limits<std::uint64_t>::max());
}

std::int64_t parse_count(std::string_view text, std::string_view option) {
  const Input input{text, option, "a count", fmt::format("{}, such as 100k", kSizeAccepts)};
  return static_cast<std::int64_t>(read_size(input, false, std::numeric_limits<std::int64_t>::max()));
}

double parse_frequency(std::string_view text, std::string_view option) {
  const Input input{text, option, "a frequency",
                    "a positive number with an optional Hz, kHz, MHz or GHz, such as 3.5GHz"};
  std::size_t length = 0;
  const double number = read_number(input, 0, text.size(), &length);
  const std::string_view suffix = text.substr(length);
  struct Scale {
    std::string_view name;
    int exponent;
  };
  for (const Scale scale :
       {Scale{"", 0}, Scale{"Hz", 0}, Scale{"kHz", 3}, Scale{"MHz", 6}, Scale{"GHz", 9}}) {
    if (suffix != scale.name) continue;
    if (number <= 0) input.refuse("it must be above 0");
    if (scale.exponent == 0) return number;
    // The nearest double to the decimal text times the unit, not the product of two roundings: "0.868GHz" and
    // "868MHz" are the same bits. Only digits and a point can be shifted; a text with an exponent is
    // multiplied.
    const std::string_view digits = text.substr(0, length);
    double value = number * (scale.exponent == 3 ? 1e3 : scale.exponent == 6 ? 1e6 : 1e9);
    if (digits.find_first_of("eE") == std::string_view::npos) {
      const std::string shifted =
          fmt::format("{}e{}", digits.starts_with('+') ? digits.substr(1) : digits, scale.exponent);
      std::from_chars(shifted.data(), shifted.data() + shifted.size(), value);
    }
    if (!std::isfinite(value)) input.refuse("it is outside the range of a 64-bit number");
    return value;
  }
  input.refuse_at(length);
}

double parse_number(std::string_view text, std::string_view option) {
  const Input input{text, option, "a number", kNumberAccepts};
  std::size_t length = 0;
  const double value = read_number(input, 0, text.size(), &length);
  if (length != text.size()) input.refuse_at(length);
  return value;
}

std::int64_t parse_whole(std::string_view text, std::string_view option, std::int64_t low,
                         std::int64_t high) {
  const Input input{text, option, "a whole number", fmt::format("a whole number from {} to {}", low, high)};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) input.refuse("it is out of range");
  if (error != std::errc{}) input.refuse_at(0);
  if (end != text.data() + text.size()) input.refuse_at(static_cast<std::size_t>(end - text.data()));
  if (value < low || value > high) input.refuse("it is out of range");
  return value;
}

std::vector<double> parse_list(std::string_view text, std::string_view option) {
  return read_list({text, option, "a list of numbers", "finite numbers joined with commas, such as 5,1,0"});
}

std::vector<double> parse_tuple(std::string_view text, std::string_view option,
                                const std::vector<std::string_view>& names) {
  const std::string joined = fmt::format("{}", fmt::join(names, ","));
  const Input input{text, option, fmt::format("{} numbers", names.size()), joined};
  std::vector<double> values = read_list(input);
  if (values.size() != names.size()) {
    input.refuse(fmt::format("it has {} {}", values.size(), values.size() == 1 ? "number" : "numbers"));
  }
  return values;
}

std::array<double, 3> parse_point(std::string_view text, std::string_view option) {
  const Input input{text, option, "a point", "x,y,z in metres, such as 8.5,21,60"};
  const std::vector<double> values = read_list(input);
  if (values.size() != 3) {
    input.refuse(
        fmt::format("it has {} {} instead of 3", values.size(), values.size() == 1 ? "number" : "numbers"));
  }
  return {values[0], values[1], values[2]};
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr Unit units[] = {{"Ti", std::uint64_t{1} << 40},
                            {"Gi", std::uint64_t{1} << 30},
                            {"Mi", std::uint64_t{1} << 20},
                            {"Ki", std::uint64_t{1} << 10}};
  for (const Unit& unit : units) {
    if (bytes != 0 && bytes % unit.factor == 0) return fmt::format("{}{}", bytes / unit.factor, unit.name);
  }
  return fmt::format("{}", bytes);
}

std::string count_text(std::int64_t count) {
  constexpr struct {
    const char* name;
    std::int64_t factor;
  } units[] = {{"T", 1000000000000}, {"G", 1000000000}, {"M", 1000000}, {"k", 1000}};
  for (const auto& unit : units) {
    if (count != 0 && count % unit.factor == 0) return fmt::format("{}{}", count / unit.factor, unit.name);
  }
  return fmt::format("{}", count);
}

std::string frequency_text(double hertz) {
  constexpr struct {
    const char* name;
    double factor;
  } units[] = {{"GHz", 1e9}, {"MHz", 1e6}, {"kHz", 1e3}};
  for (const auto& unit : units) {
    if (hertz < unit.factor) continue;
    const std::string text = fmt::format("{}{}", hertz / unit.factor, unit.name);
    if (text.size() <= 12 && parse_frequency(text, "frequency") == hertz) return text;
  }
  return fmt::format("{}Hz", hertz);
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.5 would print as 1024: three digits are kept by moving on before that.
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) value /= 1024;
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : known) {
    // Levenshtein's distance, one row at a time.
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i + 1;
      for (std::size_t j = 0; j < candidate.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i] == candidate[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
      }
    }
    const std::size_t allowed = std::max(word.size(), candidate.size()) / 3;
    if (row.back() <= allowed && row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace shardwise
