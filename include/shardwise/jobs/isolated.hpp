#pragma once
// The worker process of jobs that run isolated (JobOptions::isolate): the program `shardwise job-worker`, or
// one of your own, with host twins that it shall know:
//
//   int main() {
//     return shardwise::serve_isolated_jobs({{"scaled", [](shardwise::JobContext& job) { ... }}});
//   }

#include <map>
#include <string>

#include "shardwise/jobs/job.hpp"

namespace shardwise {

/// By the kernel that they stand for on host devices (CudaSource::kernel).
using HostTwins = std::map<std::string, NativeProgram>;

/// Does the jobs of one device for the executor that started this process, until that one ends; then returns
/// 0, or ends the process itself where a program hangs. 2: the executor is of another build, and says so.
/// Signals that stop programs (SIGINT, SIGTERM, SIGHUP) get their default back. Call it first in main(): it
/// wants standard input and file 3 as the executor left them. Throws a usage Error where standard input is
/// not an executor's, as in a terminal.
int serve_isolated_jobs(const HostTwins& twins = {});

}  // namespace shardwise
