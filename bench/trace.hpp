#pragma once
#include "runner.hpp"

namespace shardwise::bench {

/// Every operation on rows by itself: on several devices directly from the master's memory against pipelined
/// copies, on one host device against Embree alone where that does the same.
std::vector<Case> trace_cases(const Settings& settings);

}  // namespace shardwise::bench
