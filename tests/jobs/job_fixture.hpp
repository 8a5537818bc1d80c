#pragma once
// Programs that the tests of jobs share, and what must hold after any of them.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "shard/random.hpp"
#include "shardwise/jobs/device_cache.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shardwise/runtime/sim.hpp"
#include "shardwise/shard/lpt.hpp"

namespace shardwise::test {

inline bool long_run() {
  return std::getenv("SHARDWISE_LONG") != nullptr;
}

/// One input of words; one output: every word times `factor`, computed on the stream.
inline JobProgram scaled(std::uint64_t factor) {
  return JobProgram::native("scaled", [factor](JobContext& job) {
    const auto count = static_cast<std::int64_t>(job.input_bytes(0) / sizeof(std::uint64_t));
    const auto* in = job.input<std::uint64_t>(0);
    auto* out = job.output<std::uint64_t>(static_cast<std::uint64_t>(count));
    job.launch("scale", count, [=](LaunchContext&) {
      for (std::int64_t i = 0; i < count; ++i) out[i] = factor * in[i];
    });
  });
}

inline std::vector<std::uint64_t> words(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

inline Job scaling_job(const JobProgram& program, std::uint64_t first, std::size_t count) {
  Job job;
  job.inputs = {JobInput::copied(std::span<const std::uint64_t>(words(first, count)))};
  job.program = program;
  job.cost = std::max<std::uint64_t>(count, 1);
  return job;
}

inline void expect_scaled(const JobResult& result, std::uint64_t factor, std::uint64_t first,
                          std::size_t count) {
  ASSERT_EQ(result.status, JobStatus::done) << (result.error ? result.error->message : "");
  ASSERT_FALSE(result.error);
  std::vector<std::uint64_t> expected = words(first, count);
  for (std::uint64_t& word : expected) word *= factor;
  ASSERT_EQ(result.output<std::uint64_t>(0), expected) << result.id;
}

/// Nothing runs: no cost, no bytes beyond what caches keep, no race.
inline void expect_at_rest(const JobExecutor& executor) {
  for (const std::uint64_t load : executor.loads()) EXPECT_EQ(load, 0u);
  if (const SimWorld* world = executor.devices().sim_world()) {
    const auto races = world->races();
    EXPECT_TRUE(races.empty()) << races.front().text;
  }
}

/// Every device is well, once those that failed have been asked (which on real devices outlasts the jobs).
inline void expect_all_ok(const JobExecutor& executor) {
  const std::vector<JobDeviceState> ok(static_cast<std::size_t>(executor.devices().size()),
                                       JobDeviceState::ok);
  for (int i = 0; i < 500 && executor.states() != ok; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(executor.states(), ok);
}

inline void expect_error(const std::function<void()>& call, ErrorClass error_class, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), error_class) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace shardwise::test
