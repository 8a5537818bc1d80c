#include "job_worker.hpp"

#include <exception>

#include "bench/jobs.hpp"
#include "log.hpp"
#include "shardwise/jobs/isolated.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

constexpr const char* name = "job-worker";

}  // namespace

// The link is followed in the child that is to become it, where it still means this program.
std::vector<std::string> job_worker_command() {
  return {"/proc/self/exe", name};
}

bool is_job_worker(int argc, char** argv) {
  return argc == 2 && std::string(argv[1]) == name;
}

int be_job_worker() {
  try {
    return serve_isolated_jobs(bench::job_twins());
  } catch (const Error& error) {
    log_error(error.what());
    return exit_code(error.error_class());
  } catch (const std::exception& error) {
    log_error(error.what());
    return exit_code(ErrorClass::internal);
  }
}

}  // namespace shardwise::program
