#pragma once

#include "runner.hpp"

namespace shardwise::bench {

/// Grid operators and solvers: against the copy rate of the first device, and all devices against it.
std::vector<Case> grid_cases(const Settings& settings);

}  // namespace shardwise::bench
