#pragma once
// Whether calibration decides well: each case calibrates again and again and tries what was decided.

#include "bench/runner.hpp"

namespace shardwise::bench {

std::vector<Case> calibrate_cases(const Settings& settings);

}  // namespace shardwise::bench
