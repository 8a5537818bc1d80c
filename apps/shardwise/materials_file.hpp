#pragma once

#include <map>
#include <string>
#include <string_view>

#include "shardwise/scene/material.hpp"

namespace shardwise::program {

/// Reads `--materials FILE.toml`. A key is a material's name as the scene spells it; its value is the name of
/// an ITU-R P.2040 class, or a table of constants; `schema = 1` may stand before them:
///
///     schema = 1
///     brick_wall = "brick"
///     screen = { eta_r = 1.0, sigma = inf, mu_r = 1.0, thickness = 0.002 }
///     window = { class = "glass", thickness = 0.01 }
///
/// Throws data errors that name file, line and key; a usage error in a build without the TOML reader.
std::map<std::string, Material> read_materials_file(const std::string& path);

/// The same for a text; errors call it `path`.
std::map<std::string, Material> parse_materials(std::string_view text, const std::string& path);

}  // namespace shardwise::program
