#pragma once

#include <CLI/CLI.hpp>

namespace shardwise::program {

/// Under a launcher that can start ranks with command lines of their own: throws a usage error, on every
/// rank, where two ranks' command or options differ, but for those that are a rank's own affair (devices, how
/// much of them, what is said). Collective; nothing where there is one rank.
void require_same_arguments(const CLI::App& root);

}  // namespace shardwise::program
