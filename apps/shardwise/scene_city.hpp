#pragma once

#include "command.hpp"

namespace shardwise::program {

/// shardwise scene city: a generated city in a folder.
void add_scene_city(Commands& commands, CLI::App& scene);

}  // namespace shardwise::program
