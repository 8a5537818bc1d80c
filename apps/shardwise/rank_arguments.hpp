#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace shardwise::program {

/// Under a launcher that can start ranks with command lines of their own: throws a usage error, on every
/// rank, where two ranks' command or options differ, but for those that are a rank's own affair (devices, how
/// much of them, what is said). Collective; nothing where there is one rank.
void require_same_arguments(const CLI::App& root);

/// The same for a file that every rank reads by itself: throws a usage error, on every rank, where `contents`
/// differ. `what` names it: "the batch 'b.jsonl'".
void require_same_contents(const std::string& what, std::string_view contents);

}  // namespace shardwise::program
