#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "output_file.hpp"

namespace shardwise::program {

/// Keys keep the order they were given in.
using Json = nlohmann::ordered_json;

/// Indented JSON and a newline. Numbers that are not finite become null, as JSON has no word for them.
std::string json_text(const Json& report);

/// `number`, or null where it is not finite.
Json number_or_null(double number);

/// Stages a JSON report for a file. "-" is left to the caller: it goes to standard output after commit().
void stage_json(OutputSet& outputs, const std::string& path, const Json& report);

/// What `--version` says, for reports.
Json build_json();

}  // namespace shardwise::program
