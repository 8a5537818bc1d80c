#pragma once

#include "runner.hpp"
#include "shardwise/jobs/isolated.hpp"

namespace shardwise::bench {

/// Placement, the cost of a job, the shortest job worth giving, makespans over their bound, hits of caches.
std::vector<Case> jobs_cases(const Settings& settings);

/// Twins that a worker process needs for the cases of isolated jobs on host devices.
HostTwins job_twins();

}  // namespace shardwise::bench
