#pragma once
// What every test on a GPU has: the current device is as it was, and a hang ends with a text.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/cuda/cuda_device.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise::test {

#define SKIP_WITHOUT_GPUS(count)                  \
  if (::shardwise::cuda_device_count() < (count)) \
  GTEST_SKIP() << "needs " << (count) << " GPU(s), " << ::shardwise::cuda_device_count() << " answer here"

/// Ends the process with a failure where a test takes too long: what hangs inside the driver cannot be left.
class Watchdog {
 public:
  explicit Watchdog(std::string test, std::chrono::seconds limit = std::chrono::seconds(60))
      : thread_([this, test = std::move(test), limit] {
          std::unique_lock lock(mutex_);
          if (over_.wait_for(lock, limit, [&] { return done_; })) return;
          std::fprintf(
              stderr,
              "[  FAILED  ] %s: not over after %lld s: host and GPU wait for each other, or the GPU is much "
              "too slow; the process ends here, tests behind it did not run\n",
              test.c_str(), static_cast<long long>(limit.count()));
          std::fflush(nullptr);
          std::_Exit(1);
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    over_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;
  std::thread thread_;
};

/// Proves for every test that the current device is as it was.
struct Gpu : ::testing::Test {
  void SetUp() override {
    if (cuda_device_count() == 0) return;
    // The last one, so that code that leaves "its" device 0 current is seen where there are several.
    before_ = cuda_device_count() - 1;
    ASSERT_EQ(cudaSetDevice(before_), cudaSuccess);
  }
  void TearDown() override { expect_current("at the end of the test"); }
  void expect_current(const char* where) const {
    if (cuda_device_count() == 0) return;
    int now = -1;
    ASSERT_EQ(cudaGetDevice(&now), cudaSuccess);
    EXPECT_EQ(now, before_) << where;
  }
  int before_ = 0;
  Watchdog watchdog_{::testing::UnitTest::GetInstance()->current_test_info()->name()};
};

}  // namespace shardwise::test
