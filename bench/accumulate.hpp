#pragma once

#include "bench/runner.hpp"

namespace shardwise::bench {

/// Coverage maps: against Embree alone, against one device, and the accumulation modes against each other.
std::vector<Case> accumulate_cases(const Settings& settings);

}  // namespace shardwise::bench
