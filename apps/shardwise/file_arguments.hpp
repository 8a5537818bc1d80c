#pragma once

#include <CLI/CLI.hpp>

namespace shardwise::program {

/// Looks at a parsed command's arguments as files, before any is opened. Throws a usage error for a value
/// that is empty (a variable that was not set), for an output that is also an input, and for two outputs that
/// are one file, however they are written. --checkpoint, --partial, --resume and --restart may share a file.
void check_file_arguments(const CLI::App& command);

}  // namespace shardwise::program
