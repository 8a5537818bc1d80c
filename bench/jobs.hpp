#pragma once

#include "runner.hpp"

namespace shardwise::bench {

/// Placement, the cost of a job, the shortest job worth giving, makespans over their bound, hits of caches.
std::vector<Case> jobs_cases(const Settings& settings);

}  // namespace shardwise::bench
