#pragma once

#include "runner.hpp"

namespace shardwise::bench {

/// Large batches within a small memory budget: time, and the peak as we count it and as the system does.
std::vector<Case> budget_cases(const Settings& settings);

}  // namespace shardwise::bench
