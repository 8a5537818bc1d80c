#pragma once
// Values of options as people type them. Every function throws a usage error that names the option, the text found
// and what to write instead.

#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise::program {

/// A finite number.
double number_value(const std::string& option, const std::string& text);
/// A finite number above zero.
double positive_value(const std::string& option, const std::string& text);
/// A whole number of at least `least`: `2M` is 2,000,000, `64Ki` is 65,536.
std::int64_t count_value(const std::string& option, const std::string& text, std::int64_t least);
/// Hertz, above zero: `3.5GHz`.
double frequency_value(const std::string& option, const std::string& text);
/// Comma-separated finite numbers.
std::vector<double> numbers_value(const std::string& option, const std::string& text);
/// `x,y,z` in metres, finite.
Vec3d point_value(const std::string& option, const std::string& text);
/// One of the words given; names the nearest.
std::string word_value(const std::string& option, const std::string& text, const std::vector<std::string>& words);

}  // namespace shardwise::program
