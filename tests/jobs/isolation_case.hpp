#pragma once
// The fixture of the tests of isolation: a folder for marks, and what became of processes.

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "jobs/isolation_fixture.hpp"
#include "jobs/job_fixture.hpp"

namespace shardwise::test {

inline const std::string worker = SHARDWISE_ISOLATION_WORKER;

class IsolatedJobs : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("shardwise-isolation-" + std::to_string(getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  /// The process that a job has written down; 0: none did within some seconds.
  static pid_t process_in(const std::string& path) {
    for (int i = 0; i < 1000; ++i) {
      pid_t process = 0;
      if (std::ifstream(path) >> process) return process;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return 0;
  }
  /// Whether it goes away within some seconds. One that waits for its parent to ask has gone.
  static bool goes(pid_t process) {
    for (int i = 0; i < 1000; ++i) {
      std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
      std::string text((std::istreambuf_iterator<char>(stat)), std::istreambuf_iterator<char>());
      const auto end = text.rfind(") ");
      if (end == std::string::npos || text[end + 2] == 'Z' || text[end + 2] == 'X') return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  static void expect_tripled(const JobResult& result, std::uint64_t first, std::size_t count) {
    expect_scaled(result, 3, first, count);
  }
  static std::uint64_t workers(const JobExecutor& jobs) {
    std::uint64_t sum = 0;
    for (const JobDeviceReport& device : jobs.report().devices) sum += device.workers;
    return sum;
  }
  std::filesystem::path folder_;
};

}  // namespace shardwise::test
