// What becomes of jobs when one fails, a device is lost, somebody cancels or a timeout passes.

#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "jobs/platform_fixture.hpp"

namespace shardwise {
namespace {

using namespace test;

class FailingJobs : public JobsOnPlatform {};

// One of 1,000 fails: 999 results and one error, retried as often as it says.
TEST_P(FailingJobs, OneFailingJobLosesNoOther) {
  JobOptions options;
  options.retries = 2;
  JobExecutor jobs = executor(options);
  std::atomic<int> calls{0};
  const JobProgram good = scaled(7);
  const JobProgram bad = JobProgram::native("bad", [&](JobContext& job) {
    ++calls;
    job.launch("bad", 1, [](LaunchContext&) { throw std::runtime_error("a bad day"); });
  });
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 1000; ++i) batch.push_back(scaling_job(good, i, 3));
  batch[500] = {};
  batch[500].id = "the bad one";
  batch[500].program = bad;
  const auto results = jobs.run(std::move(batch));
  for (std::size_t i = 0; i < 1000; ++i) {
    if (i == 500) continue;
    expect_scaled(results[i], 7, i, 3);
  }
  const JobResult& failed = results[500];
  EXPECT_EQ(failed.status, JobStatus::failed);
  EXPECT_EQ(failed.attempts, 3);
  EXPECT_EQ(calls, 3);
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->message, "job 'the bad one' on " + failed.device + ": a bad day");
  EXPECT_TRUE(failed.outputs.empty());
  EXPECT_THROW(failed.output<int>(0), Error);
  const JobReport report = jobs.report();
  EXPECT_EQ(report.failed, 1u);
  EXPECT_EQ(report.done, 999u);
  EXPECT_EQ(report.retries, 2u);
  expect_all_ok(jobs);
  expect_at_rest(jobs);
}

// What a batch gets wrong is no device's fault: none is asked for a sign of life, so that none can be lost by
// it.
TEST(JobDevices, AreNotAskedWhenAJobIsMistaken) {
  for (const ErrorClass error_class : {ErrorClass::usage, ErrorClass::data, ErrorClass::device}) {
    OpenOptions open;
    // The first operation of all, which is the probe.
    open.sim_faults = "device 0 operation 1 lost";
    JobOptions options;
    options.retries = 0;
    JobExecutor jobs(open_devices("sim:2", open), options);
    Job bad;
    bad.id = "bad";
    bad.device = 0;
    bad.program = JobProgram::native(
        "bad", [=](JobContext&) { throw Error(error_class, "no such program"); }, true);
    const auto results = jobs.run({bad});
    EXPECT_EQ(results[0].status, JobStatus::failed);
    ASSERT_TRUE(results[0].error);
    EXPECT_EQ(results[0].error->error_class, error_class);
    EXPECT_EQ(jobs.report().devices[0].state,
              error_class == ErrorClass::device ? JobDeviceState::lost : JobDeviceState::ok);
    EXPECT_EQ(jobs.report().devices[0].failed, 1u) << "the attempt was made there";
  }
}

// Who hears that a job failed hears what became of its device: there is no answer still to come.
TEST(JobDevices, HaveAnsweredWhenAFailureIsReported) {
  JobOptions options;
  options.retries = 0;
  JobExecutor jobs(open_devices("host:1x1"), options);
  for (int round = 0; round < 50; ++round) {
    Job bad;
    bad.program = JobProgram::native(
        "bad", [](JobContext&) { throw Error(ErrorClass::device, "exit code 3"); }, true);
    EXPECT_EQ(jobs.run({bad})[0].status, JobStatus::failed);
    ASSERT_EQ(jobs.report().devices[0].state, JobDeviceState::ok) << "round " << round;
  }
}

// Where a claim cannot be written, say.
TEST_P(FailingJobs, WhatAdmissionThrowsIsTheJobsFailure) {
  JobExecutor jobs = executor();
  const JobProgram good = scaled(7);
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 20; ++i) batch.push_back(scaling_job(good, i, 3));
  for (const std::size_t i : {0u, 7u, 19u})
    batch[i].admit = []() -> bool { throw Error(ErrorClass::io, "no room for a claim"); };
  const auto results = jobs.run(std::move(batch));
  for (std::size_t i = 0; i < 20; ++i) {
    if (i != 0 && i != 7 && i != 19) {
      expect_scaled(results[i], 7, i, 3);
      continue;
    }
    EXPECT_EQ(results[i].status, JobStatus::failed);
    ASSERT_TRUE(results[i].error);
    EXPECT_EQ(results[i].error->error_class, ErrorClass::io);
    EXPECT_NE(results[i].error->message.find("no room for a claim"), std::string::npos);
  }
  expect_all_ok(jobs);
  expect_at_rest(jobs);
}

TEST_P(FailingJobs, ARetryRunsElsewhereAndKeepsItsResult) {
  JobExecutor jobs = executor();
  std::vector<int> tried;
  std::mutex mutex;
  const JobProgram program = JobProgram::native("picky", [&](JobContext& job) {
    std::lock_guard lock(mutex);
    tried.push_back(job.device_index());
    if (tried.size() == 1) throw Error(ErrorClass::device, "not here");
    *job.output<int>(1) = 42;
    job.set_value(std::string("kept"));
  });
  Job job;
  job.program = program;
  const auto results = jobs.run({job});
  EXPECT_EQ(results[0].status, JobStatus::done);
  EXPECT_EQ(results[0].attempts, 2);
  EXPECT_EQ(std::any_cast<std::string>(results[0].value), "kept");
  ASSERT_EQ(tried.size(), 2u);
  if (jobs.devices().size() > 1) {
    EXPECT_NE(tried[0], tried[1]);
  }
  expect_at_rest(jobs);
}

TEST_P(FailingJobs, ALostDevicesJobsMove) {
  JobExecutor jobs = executor();
  const JobProgram good = scaled(5);
  // The first device dies in its tenth job, and with every later operation.
  std::atomic<int> begun{0};
  const JobProgram deadly = JobProgram::native("deadly", [&](JobContext& job) {
    const bool first = job.device_index() == 0;
    const auto* in = job.input<std::uint64_t>(0);
    auto* out = job.output<std::uint64_t>(1);
    job.launch("deadly", 1, [&begun, first, in, out](LaunchContext&) {
      if (first && ++begun >= 10) throw Error(ErrorClass::lost, "the device fell off the bus");
      *out = 5 * *in;
    });
  });
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 1000; ++i) {
    batch.push_back(scaling_job(deadly, i, 1));
    if (i % 2) batch.back().program = good;
  }
  const auto results = jobs.run(std::move(batch));
  const JobReport report = jobs.report();
  if (jobs.devices().size() == 1) {
    EXPECT_GT(report.failed, 900u) << "no device is left";
    for (const JobResult& result : results)
      if (result.error) {
        EXPECT_EQ(result.error->error_class, ErrorClass::lost) << result.error->message;
      }
  } else {
    for (std::size_t i = 0; i < 1000; ++i) expect_scaled(results[i], 5, i, 1);
    EXPECT_EQ(report.devices[0].state, JobDeviceState::lost);
    EXPECT_EQ(report.devices[0].why_lost, "the device fell off the bus");
    ASSERT_FALSE(report.notes.empty());
    EXPECT_NE(report.notes[0].find(report.devices[0].name + " was lost: the device fell off the bus"),
              std::string::npos)
        << report.notes[0];
    // It stays lost.
    const auto again = jobs.run({scaling_job(good, 1, 1), scaling_job(good, 1, 1)});
    for (const JobResult& result : again) EXPECT_NE(result.device, report.devices[0].name);
  }
  expect_at_rest(jobs);
}

TEST_P(FailingJobs, AJobThatBreaksTwoDevicesIsSetAside) {
  JobExecutor jobs = executor();
  if (jobs.devices().size() < 3) GTEST_SKIP() << "needs three devices";
  const JobProgram good = scaled(2);
  const JobProgram breaker = JobProgram::native("breaker", [](JobContext& job) {
    job.launch("break", 1, [](LaunchContext&) { throw Error(ErrorClass::lost, "it went dark"); });
  });
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 100; ++i) batch.push_back(scaling_job(good, i, 2));
  batch[0] = {};
  batch[0].id = "breaker";
  batch[0].program = breaker;
  batch[0].cost = 1000;
  const auto results = jobs.run(std::move(batch));
  EXPECT_EQ(results[0].status, JobStatus::failed);
  EXPECT_NE(results[0].error->message.find("set aside, because two devices were lost while they ran it"),
            std::string::npos)
      << results[0].error->message;
  for (std::size_t i = 1; i < 100; ++i) expect_scaled(results[i], 2, i, 2);
  const JobReport report = jobs.report();
  EXPECT_EQ(report.set_aside, std::vector<std::string>{"breaker"});
  int lost = 0;
  for (const JobDeviceState state : jobs.states()) lost += state == JobDeviceState::lost;
  EXPECT_EQ(lost, 2);
  expect_at_rest(jobs);
}

TEST_P(FailingJobs, OutOfMemoryIsTriedAgainAFewTimes) {
  JobExecutor jobs = executor();
  std::atomic<int> calls{0};
  const JobProgram twice = JobProgram::native("twice", [&](JobContext&) {
    if (++calls < 3) throw Error(ErrorClass::memory, "no memory for it");
  });
  Job job;
  job.program = twice;
  auto results = jobs.run({job});
  EXPECT_EQ(results[0].status, JobStatus::done);
  EXPECT_EQ(results[0].attempts, 3);
  job.program = JobProgram::native("never", [](JobContext&) { throw std::bad_alloc(); });
  results = jobs.run({job});
  EXPECT_EQ(results[0].status, JobStatus::failed);
  EXPECT_EQ(results[0].error->error_class, ErrorClass::memory);
  EXPECT_EQ(results[0].attempts, 4);
  EXPECT_NE(results[0].error->message.find("out of memory 4 times"), std::string::npos);
  expect_at_rest(jobs);
}

TEST_P(FailingJobs, AStreamEndsWithTheErrorOfItsSink) {
  JobExecutor jobs = executor();
  int given = 0;
  EXPECT_THROW(jobs.stream(
                   [&]() -> std::optional<Job> {
                     if (++given > 100000) return std::nullopt;
                     return scaling_job(scaled(1), 0, 1);
                   },
                   [&](JobResult) { throw std::runtime_error("enough"); }),
               std::runtime_error);
  EXPECT_LE(given, 100000);
  expect_at_rest(jobs);
}

TEST_P(FailingJobs, CancelEndsWhatHasNotBegun) {
  JobExecutor* hooked = nullptr;
  JobOptions options;
  std::size_t seen = 0;
  options.on_result = [&](std::size_t, const JobResult&) {
    if (++seen == 5) hooked->cancel();
  };
  JobExecutor jobs = executor(options);
  hooked = &jobs;
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 5000; ++i) batch.push_back(scaling_job(scaled(1), i, 1));
  std::size_t done = 0, cancelled = 0;
  for (const JobResult& result : jobs.run(std::move(batch))) {
    done += result.status == JobStatus::done;
    cancelled += result.status == JobStatus::cancelled;
    if (result.status == JobStatus::cancelled) {
      EXPECT_EQ(result.error->error_class, ErrorClass::interrupted);
    }
  }
  EXPECT_EQ(done + cancelled, 5000u);
  EXPECT_GE(done, 5u);
  EXPECT_GT(cancelled, 0u);
  EXPECT_EQ(seen, 5000u);
  expect_scaled(jobs.run({scaling_job(scaled(2), 1, 1)})[0], 2, 1, 1);
  expect_at_rest(jobs);
}

TEST_P(FailingJobs, FailFastCancelsTheRest) {
  JobOptions options;
  options.fail_fast = true;
  options.retries = 0;
  JobExecutor jobs = executor(options);
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 2000; ++i) batch.push_back(scaling_job(scaled(1), i, 1));
  batch[0].program = JobProgram::native("bad", [](JobContext&) { throw std::runtime_error("no"); });
  batch[0].id = "bad";
  batch[0].cost = 1000000;
  const auto results = jobs.run(std::move(batch));
  const JobReport report = jobs.report();
  EXPECT_EQ(report.failed, 1u);
  EXPECT_GT(report.cancelled, 0u);
  EXPECT_EQ(report.done + report.failed + report.cancelled, 2000u);
  for (const JobResult& result : results)
    if (result.status == JobStatus::cancelled) {
      EXPECT_NE(result.error->message.find("because job 'bad' failed"), std::string::npos);
    }
  expect_at_rest(jobs);
}

// One that fits no device fails before anything runs, wherever it stands in the batch.
TEST_P(FailingJobs, FailFastBeginsNothingWhereAJobFitsNoDevice) {
  for (const JobPlacement placement : {JobPlacement::by_cost, JobPlacement::by_content}) {
    JobOptions options;
    options.fail_fast = true;
    options.placement = placement;
    options.memory_bytes = 1 << 20;
    JobExecutor jobs = executor(options);
    for (const std::size_t large : {0u, 10u, 19u}) {
      const JobProgram good = scaled(3);
      std::vector<Job> batch;
      for (std::size_t i = 0; i < 20; ++i) batch.push_back(scaling_job(good, i, 1));
      batch[large].id = "large";
      batch[large].bytes = 2 << 20;
      const auto results = jobs.run(std::move(batch));
      for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(results[i].status, i == large ? JobStatus::failed : JobStatus::cancelled) << i;
        EXPECT_EQ(results[i].attempts, 0);
        if (i != large) {
          EXPECT_NE(results[i].error->message.find("because job 'large' failed"), std::string::npos);
        }
      }
      expect_at_rest(jobs);
    }
  }
}

// One of a group fails on the stream: the others run again, and none is counted as failed.
TEST_P(FailingJobs, AFailureInAGroupIsOneJobs) {
  JobExecutor jobs = executor();
  const JobProgram program = JobProgram::native("short", [](JobContext& job) {
    auto* out = job.output<std::uint64_t>(1);
    const std::uint64_t value = job.job().cost;
    job.launch("short", 1, [out, value](LaunchContext&) {
      if (value == 1500) throw std::runtime_error("the one");
      *out = value;
    });
  });
  std::vector<Job> batch(3000);
  for (std::size_t i = 0; i < batch.size(); ++i) batch[i].program = program, batch[i].cost = i + 1;
  const auto results = jobs.run(std::move(batch));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i + 1 == 1500) {
      EXPECT_EQ(results[i].status, JobStatus::failed);
      EXPECT_EQ(results[i].attempts, 2);
      continue;
    }
    ASSERT_EQ(results[i].status, JobStatus::done) << i;
    ASSERT_EQ(results[i].output<std::uint64_t>(0), std::vector<std::uint64_t>{i + 1});
    ASSERT_EQ(results[i].attempts, 1) << i;
  }
  expect_at_rest(jobs);
}

INSTANTIATE_TEST_SUITE_P(Platforms, FailingJobs, job_platforms(), platform_name);

TEST(JobTimeouts, AJobPastItsTimeoutIsRetriedElsewhereAndItsDeviceComesBack) {
  JobOptions options;
  options.probe_s = 5;
  JobExecutor jobs(open_devices("host:2x1"), options);
  std::atomic<int> calls{0};
  // On the stream, where the worker sees the clock.
  const JobProgram slow_once = JobProgram::native("slow once", [&](JobContext& job) {
    const int call = ++calls;
    auto* out = job.output<int>(1);
    job.launch("slow", 1, [call, out](LaunchContext&) {
      if (call == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      *out = call;
    });
  });
  Job job;
  job.program = slow_once;
  job.timeout_s = 0.4;
  auto results = jobs.run({job});
  ASSERT_EQ(results[0].status, JobStatus::done) << results[0].error->message;
  EXPECT_EQ(results[0].output<int>(0), std::vector<int>{2}) << "the late result does not count";
  EXPECT_EQ(results[0].attempts, 2);
  const auto expect_counted = [&] {
    const JobReport report = jobs.report();
    double busy = 0;
    std::uint64_t failed = 0;
    for (const JobDeviceReport& device : report.devices) busy += device.busy_s, failed += device.failed;
    EXPECT_EQ(failed, 1u);
    EXPECT_GE(busy, 0.39) << "until it was given up";
    EXPECT_GE(report.lower_bound_s, 0.39);
    EXPECT_LE(report.lower_bound_s, report.makespan_s * 1.001);
  };
  expect_counted();
  // In the call, where only the watch sees it.
  calls = 0;
  job.program = JobProgram::native(
      "blocks once",
      [&](JobContext& context) {
        const int call = ++calls;
        for (int i = 0; call == 1 && i < 300 && !context.is_cancelled(); ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        context.set_value(call);
      },
      true);
  results = jobs.run({job});
  ASSERT_EQ(results[0].status, JobStatus::done) << results[0].error->message;
  EXPECT_EQ(std::any_cast<int>(results[0].value), 2);
  expect_counted();
  jobs.drain();
  expect_all_ok(jobs);
  expect_at_rest(jobs);
}

// Given up in its call, it notices, and says so by an error that is no device's fault.
TEST(JobTimeouts, ADeviceIsAskedWhenALateProgramThrows) {
  JobOptions options;
  options.probe_s = 0.5;
  options.retries = 0;
  JobExecutor jobs(open_devices("host:1x1"), options);
  Job job;
  job.program = JobProgram::native(
      "notices",
      [](JobContext& context) {
        for (int i = 0; i < 300 && !context.is_cancelled(); ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        throw Error(ErrorClass::interrupted, "nobody waits for this");
      },
      true);
  job.timeout_s = 0.1;
  const auto results = jobs.run({job});
  ASSERT_EQ(results[0].status, JobStatus::failed);
  EXPECT_NE(results[0].error->message.find("has not returned within its timeout of 0.1 s"), std::string::npos)
      << results[0].error->message;
  expect_scaled(jobs.run({scaling_job(scaled(2), 1, 1)})[0], 2, 1, 1);
  expect_all_ok(jobs);
  expect_at_rest(jobs);
}

// The job ends while its inputs are still on their way: they stay where they are until that is over.
TEST(JobTimeouts, InputsOutliveACopyThatIsLate) {
  JobOptions options;
  options.probe_s = 60;  // late is late enough, however slow the copy: the device is not given up
  JobExecutor jobs(open_devices("host:1x1"), options);
  constexpr std::size_t bytes = std::size_t{1} << 29;
  const JobProgram looks = JobProgram::native("looks", [](JobContext& job) {
    const auto* in = job.input<std::byte>(0);
    auto* out = job.output<std::byte>(1);
    job.launch("look", 1, [=](LaunchContext&) { *out = in[bytes - 1]; });
  });
  std::vector<Job> batch(1);
  batch[0].inputs = {JobInput::owned(std::vector<std::byte>(bytes, std::byte{7}))};
  batch[0].program = looks;
  batch[0].timeout_s = 1e-3;
  batch[0].retries = 0;
  const auto results = jobs.run(std::move(batch));
  ASSERT_EQ(results[0].status, JobStatus::failed);
  EXPECT_NE(results[0].error->message.find("not done within its timeout"), std::string::npos)
      << results[0].error->message;
  jobs.drain();
  while (jobs.states()[0] == JobDeviceState::suspect)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  expect_all_ok(jobs);
  expect_at_rest(jobs);
}

TEST(JobTimeouts, ADeviceThatDoesNotComeBackIsLost) {
  JobOptions options;
  options.probe_s = 0.1;
  static std::atomic<bool> release{false};  // outlives what is left behind
  std::vector<JobResult> results;
  {
    JobExecutor jobs(open_devices("host:2x1"), options);
    const JobProgram good = scaled(2);
    const JobProgram stuck = JobProgram::native("stuck", [&](JobContext& job) {
      job.launch("stuck", 1, [&](LaunchContext&) {
        while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      });
    });
    std::vector<Job> batch;
    for (std::size_t i = 0; i < 20; ++i) batch.push_back(scaling_job(good, i, 2));
    Job bad;
    bad.id = "stuck";
    bad.program = stuck;
    bad.timeout_s = 0.05;
    bad.retries = 0;
    bad.cost = 100;
    batch.push_back(bad);
    results = jobs.run(std::move(batch));
    EXPECT_NE(results[20].error->message.find("not done within its timeout of 0.05 s"), std::string::npos)
        << results[20].error->message;
    for (std::size_t i = 0; i < 20; ++i) expect_scaled(results[i], 2, i, 2);
    for (int i = 0; i < 300; ++i) {
      const auto states = jobs.states();
      if (std::count(states.begin(), states.end(), JobDeviceState::lost) == 1) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const auto states = jobs.states();
    EXPECT_EQ(std::count(states.begin(), states.end(), JobDeviceState::lost), 1);
    expect_at_rest(jobs);
    release = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace
}  // namespace shardwise
