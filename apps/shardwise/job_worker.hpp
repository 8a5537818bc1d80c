#pragma once
// `shardwise job-worker`: this program as the worker process of jobs that run isolated. Not for people.

#include <string>
#include <vector>

namespace shardwise::program {

/// This very program, whatever has become of its file.
std::vector<std::string> job_worker_command();

bool is_job_worker(int argc, char** argv);
/// Serves the executor that started this process; returns the exit code. By hand it says what it is.
int be_job_worker();

}  // namespace shardwise::program
