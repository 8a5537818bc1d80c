#pragma once
// Values of options beyond what runtime/parse.hpp reads. Every function throws a usage error that names the
// option, the text found and what to write instead.

#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise::program {

/// A finite number above zero.
double positive_value(const std::string& option, const std::string& text);
/// A whole number in [least, most]; `2M` is 2,000,000.
std::int64_t count_value(const std::string& option, const std::string& text, std::int64_t least,
                         std::int64_t most);
/// `x,y,z` in metres.
Vec3d point_value(const std::string& option, const std::string& text);
/// One of the words given; names the nearest.
std::string word_value(const std::string& option, const std::string& text,
                       const std::vector<std::string>& words);
/// "'a', 'b' or 'c'".
std::string any_of(const std::vector<std::string>& words);

}  // namespace shardwise::program
