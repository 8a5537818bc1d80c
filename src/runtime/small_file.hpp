#pragma once
// Small files of text that a user names: topologies, scripts, calibrations.

#include <cstddef>
#include <string>
#include <string_view>

namespace shardwise {

/// None is larger; what is, is another file.
inline constexpr std::size_t most_bytes_of_small_file = std::size_t{64} << 20;

/// The bytes of a regular file. Throws Error{data}: `what` and why it cannot be read, with the path, then
/// `remedy`. A pipe, which would be waited for, and what never ends are no regular files.
std::string read_small_file(const std::string& path, const std::string& what, const std::string& remedy);

/// Replaces the file by rename: others see all of the old one or all of the new one, and so do we after a
/// failure. Throws Error{io} that begins with `what`.
void replace_small_file(const std::string& path, std::string_view bytes, const std::string& what);

}  // namespace shardwise
