#pragma once

#include <map>
#include <string>

#include "shardwise/scene/material.hpp"

namespace shardwise::program {

/// Reads `--materials FILE.toml`. A key is a material's name as the scene spells it; its value is the name of
/// an ITU-R P.2040 class, or a table of constants:
///
///     brick_wall = "brick"
///     screen = { eta_r = 1.0, sigma = inf, mu_r = 1.0, thickness = 0.002 }
///     window = { class = "glass", thickness = 0.01 }
///
/// Throws data errors that name file, line and key; a usage error in a build without the TOML reader.
std::map<std::string, Material> read_materials_file(const std::string& path);

}  // namespace shardwise::program
