#pragma once
// Tests of jobs that hold on every platform: one body, host and sim.

#include <cctype>
#include <string>

#include "jobs/job_fixture.hpp"

namespace shardwise::test {

class JobsOnPlatform : public ::testing::TestWithParam<const char*> {
 protected:
  JobExecutor executor(JobOptions options = {}) const {
    OpenOptions open;
    open.allow_mixed = true;
    return JobExecutor(open_devices(GetParam(), open), std::move(options));
  }
  bool is_sim() const { return std::string(GetParam()).starts_with("sim"); }
};

inline auto job_platforms() {
  return ::testing::Values("host:1x1", "host:3x1", "host:1x1+host:1x2", "sim:1", "sim:4");
}

inline std::string platform_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace shardwise::test
