#pragma once
// Whether the model of a machine, fitted on one scene, predicts calls on others.

#include "bench/runner.hpp"

namespace shardwise::bench {

std::vector<Case> predict_cases(const Settings& settings);

}  // namespace shardwise::bench
