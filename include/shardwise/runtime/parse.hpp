#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise {

// Text of options and plan files to values, and back. Every parser takes the whole text (no spaces around
// it), and throws Error(usage) that names `option`, quotes the text, says at which character it went wrong
// and what is accepted. `option` is what the user wrote the text for: "--memory", "plan.toml:12: frequency".

/// Bytes: a number with an optional k, M, G, T (decimal; K is read as k) or Ki, Mi, Gi, Ti (binary), and an
/// optional B: "4096", "64Mi", "1.5GiB", "2e9". Fractions and exponents are exact and must come to a whole
/// number of bytes. At most 2^64 - 1.
std::uint64_t parse_bytes(std::string_view text, std::string_view option);

/// A count of rows, lanes or rays: the same without B, at most 2^63 - 1: "100k", "2M", "1.5M", "65536".
std::int64_t parse_count(std::string_view text, std::string_view option);

/// A frequency in hertz: a positive number with an optional Hz, kHz, MHz or GHz: "3.5GHz", "868MHz", "3.5e9".
double parse_frequency(std::string_view text, std::string_view option);

/// A finite number: "3", "-2.5", "1e-3".
double parse_number(std::string_view text, std::string_view option);

/// A whole number in [low, high]: "-3".
std::int64_t parse_whole(std::string_view text, std::string_view option, std::int64_t low, std::int64_t high);

/// Finite numbers joined with commas, at least one: "5,1,0".
std::vector<double> parse_list(std::string_view text, std::string_view option);

/// The same with exactly `names.size()` numbers; `names` go into the message: {"x0", "y0", "x1", "y1"}.
std::vector<double> parse_tuple(std::string_view text, std::string_view option,
                                const std::vector<std::string_view>& names);

/// "x,y,z" in metres.
std::array<double, 3> parse_point(std::string_view text, std::string_view option);

/// Exact, and read back by parse_bytes: "64Mi" where the number is a multiple of a binary unit, else "1000".
std::string bytes_text(std::uint64_t bytes);
/// Exact, and read back by parse_count: "100k" where the number is a multiple of a decimal unit, else
/// "65536".
std::string count_text(std::int64_t count);
/// Exact, and read back by parse_frequency to the same bits: "3.5GHz", "868MHz".
std::string frequency_text(double hertz);
/// For people, three digits: "64.0 MiB", "123 B".
std::string human_bytes(std::uint64_t bytes);

/// The one of `known` that is closest to `word` by single-letter edits, or "" where none is near (more than a
/// third of the letters differ): for "unknown X; did you mean Y".
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace shardwise
