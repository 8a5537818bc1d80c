#pragma once

#include "runner.hpp"

namespace shardwise::bench {

/// Calls on rows: all devices against the first, by operation, source and sink.
std::vector<Case> dispatch_cases(const Settings& settings);

}  // namespace shardwise::bench
