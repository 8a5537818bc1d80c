#pragma once

#include "runner.hpp"

namespace shardwise::bench {

/// Predicted speed-up of the benchmark operations on 1 to 64 simulated devices. `--devices` names the
/// machine, "sim:h200" by default: the number is the benchmark's.
std::vector<Case> scaling_cases(const Settings& settings);

}  // namespace shardwise::bench
