// Jobs in worker processes: whatever one does to its process, the others have their results and the devices
// stay; worker programs that are none.

#include "jobs/isolation_case.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

namespace shardwise {
namespace {

using namespace test;
namespace fs = std::filesystem;

// 1,000 jobs, one of which ends its process each time: 999 results and one error with its name, both devices
// well.
TEST_F(IsolatedJobs, OneThatEndsItsProcessLosesNoOther) {
  JobExecutor jobs(open_devices("host:2x1"), isolated({worker}));
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 1000; ++i) batch.push_back(misbehaving_job(Misdeed::none, i, 1 + i % 40));
  batch[500] = misbehaving_job(Misdeed::bad_pointer, 0, 1);
  batch[500].id = "the wild one";
  const auto results = jobs.run(std::move(batch));
  for (std::size_t i = 0; i < 1000; ++i) {
    if (i != 500) expect_tripled(results[i], i, 1 + i % 40);
  }
  EXPECT_EQ(results[500].status, JobStatus::failed);
  EXPECT_EQ(results[500].attempts, 2);
  EXPECT_EQ(results[500].error->error_class, ErrorClass::device);
  EXPECT_EQ(results[500].error->message,
            "job 'the wild one' on " + results[500].device +
                ": set aside, because two worker processes broke while they ran it, " +
                (results[500].device == "host:0" ? "host:1 and host:0" : "host:0 and host:1") +
                "; the last error: its worker process was killed by signal 11 (Segmentation fault)");
  const JobReport report = jobs.report();
  EXPECT_EQ(report.done, 999u);
  EXPECT_EQ(report.set_aside, std::vector<std::string>{"the wild one"});
  ASSERT_EQ(report.notes.size(), 2u);
  EXPECT_NE(report.notes[0].find("job 'the wild one' broke its worker process, a fresh one takes over"),
            std::string::npos)
      << report.notes[0];
  expect_all_ok(jobs);
  expect_at_rest(jobs);
  // Both go on.
  std::vector<Job> more;
  for (std::size_t i = 0; i < 20; ++i) {
    more.push_back(misbehaving_job(Misdeed::none, i, 2));
    more.back().device = static_cast<int>(i % 2);
  }
  const auto again = jobs.run(std::move(more));
  for (std::size_t i = 0; i < 20; ++i) expect_tripled(again[i], i, 2);
}

// Every misdeed: by itself, with a good job before and after it on the same device.
TEST_F(IsolatedJobs, EachMisdeedIsItsJobsAlone) {
  struct Expected {
    Misdeed misdeed;
    const char* text;
    int attempts;
    std::uint64_t more_workers;  ///< besides the first
  };
  const std::vector<Expected> all{
      {Misdeed::throw_in_call, "job 'bad' on host:0: in the call", 1, 0},
      {Misdeed::throw_on_stream, "job 'bad' on host:0: on the stream", 1, 0},
      {Misdeed::no_memory, "job 'bad' on host:0: out of memory 2 times, the last: none left", 2, 0},
      {Misdeed::abort, "its worker process was killed by signal 6 (Aborted)", 2, 2},
      {Misdeed::exit, "its worker process ended with exit code 3", 2, 2},
      {Misdeed::bad_pointer, "its worker process was killed by signal 11 (Segmentation fault)", 2, 2},
      {Misdeed::lost, "the last error: its worker process cannot go on: host:0 fell off the bus", 2, 2},
      {Misdeed::hang,
       "job 'bad' on host:0: not done within its timeout of 0.5 s (device host:0); its worker process was "
       "stopped",
       1, 1},
      {Misdeed::hang_on_stream, "not done within its timeout of 0.5 s", 1, 1},
      {Misdeed::wrong_size,
       "outputs of other sizes than JobLaunch::output_bytes says (bytes: 32; announced: 24)", 1, 0},
      {Misdeed::wrong_number,
       "outputs of other sizes than JobLaunch::output_bytes says (bytes: none; announced: 24)", 1, 0}};
  for (const Expected& expected : all) {
    SCOPED_TRACE(expected.text);
    JobOptions options = isolated({worker});
    options.memory_retries = 1;
    JobExecutor jobs(open_devices("host:1x1"), options);
    Job bad = misbehaving_job(expected.misdeed, 5, 3);
    bad.id = "bad";
    if (expected.misdeed == Misdeed::hang || expected.misdeed == Misdeed::hang_on_stream) bad.timeout_s = 0.5;
    const auto begin = std::chrono::steady_clock::now();
    const auto results =
        jobs.run({misbehaving_job(Misdeed::none, 1, 3), bad, misbehaving_job(Misdeed::none, 2, 3)});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    expect_tripled(results[0], 1, 3);
    expect_tripled(results[2], 2, 3);
    ASSERT_TRUE(results[1].error);
    EXPECT_NE(results[1].error->message.find(expected.text), std::string::npos) << results[1].error->message;
    EXPECT_EQ(results[1].attempts, expected.attempts);
    EXPECT_TRUE(results[1].outputs.empty());
    EXPECT_EQ(jobs.report().set_aside.size(), expected.attempts == 2 && expected.more_workers == 2 ? 1u : 0u);
    expect_tripled(jobs.run({misbehaving_job(Misdeed::none, 9, 3)})[0], 9, 3);
    expect_all_ok(jobs);
    expect_at_rest(jobs);
  }
}

TEST_F(IsolatedJobs, WhatGoesWrongOnceIsDoneTheSecondTime) {
  JobOptions options = isolated({worker});
  options.retries = 1;
  JobExecutor jobs(open_devices("host:1x1"), options);
  int number = 0;
  for (const Misdeed misdeed : {Misdeed::abort, Misdeed::lost, Misdeed::hang, Misdeed::throw_on_stream}) {
    Job job = misbehaving_job(misdeed, 7, 5, file(std::to_string(number++)));
    job.timeout_s = 2;
    const auto results = jobs.run({job});
    expect_tripled(results[0], 7, 5);
    EXPECT_EQ(results[0].attempts, 2);
  }
  expect_all_ok(jobs);
}

// One of them so large that its memory is given back for the next.
TEST_F(IsolatedJobs, LargeSmallAndEmptyArrays) {
  JobExecutor jobs(open_devices("host:1x1"), isolated({worker}));
  std::vector<Job> batch;
  const std::vector<std::size_t> counts{0, 1, 1000, 6'000'000, 3, 0, 1'000'000, 5'000'000, 1};
  for (const std::size_t count : counts) batch.push_back(misbehaving_job(Misdeed::none, count, count));
  const auto results = jobs.run(std::move(batch));
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    ASSERT_EQ(results[i].status, JobStatus::done) << (results[i].error ? results[i].error->message : "");
    std::vector<std::uint64_t> expected = words(counts[i], counts[i]);
    for (std::uint64_t& word : expected) word *= 3;
    ASSERT_TRUE(results[i].output<std::uint64_t>(0) == expected) << counts[i];
    bytes += 8 * counts[i];
  }
  const JobDeviceReport device = jobs.report().devices[0];
  EXPECT_EQ(device.workers, 1u);
  EXPECT_GE(device.bytes_in, bytes);
  EXPECT_EQ(device.bytes_out, bytes);
}

// Refused with the numbers, not by the kernel's choice of a process to end.
TEST_F(IsolatedJobs, MoreThanTheMachineHasIsOutOfMemory) {
  JobOptions options = isolated({worker});
  options.memory_retries = 1;
  JobExecutor jobs(open_devices("host:1x1"), options);
  Job job = misbehaving_job(Misdeed::none, 1, 2);
  job.launch.output_bytes = {std::uint64_t{1} << 50};
  Job beyond = job;
  beyond.launch.output_bytes = {~std::uint64_t{0}, 2};
  const auto results = jobs.run({job, misbehaving_job(Misdeed::none, 1, 2), beyond});
  ASSERT_TRUE(results[0].error);
  EXPECT_EQ(results[0].error->error_class, ErrorClass::memory);
  EXPECT_NE(results[0].error->message.find("its inputs and outputs take 1.00 PiB of memory to share with its "
                                           "worker process, and "),
            std::string::npos)
      << results[0].error->message;
  EXPECT_EQ(results[0].attempts, 2);
  expect_tripled(results[1], 1, 2);
  ASSERT_TRUE(results[2].error);
  EXPECT_EQ(results[2].error->error_class, ErrorClass::usage) << results[2].error->message;
  EXPECT_EQ(jobs.report().devices[0].workers, 1u);
}

// Programs of this process run here; those that the worker does not know, too. More texts than it keeps.
TEST_F(IsolatedJobs, OnlyWhatTheWorkerKnowsRunsThere) {
  JobExecutor jobs(open_devices("host:2x1"), isolated({worker}));
  const auto own = getpid();
  std::atomic<int> here{0};
  CudaSource unknown;
  unknown.text = "//";
  unknown.kernel = "not there";
  unknown.host_twin = [&](JobContext& job) {
    here += getpid() == own;
    job.output<int>(1)[0] = 1;
  };
  CudaSource nowhere = unknown;
  nowhere.host_twin = nullptr;
  std::vector<Job> batch(6);
  batch[0].program = JobProgram::source(unknown);
  batch[1].program = JobProgram::native("native", [&](JobContext& job) {
    here += getpid() == own;
    job.set_value(7);
  });
  batch[2] = misbehaving_job(Misdeed::none, 1, 4);
  batch[3].program = JobProgram::source(nowhere);
  batch[4] = scaling_job(scaled(2), 3, 3);
  batch[5] = misbehaving_job(Misdeed::none, 2, 4);
  const auto results = jobs.run(std::move(batch));
  EXPECT_EQ(here, 2);
  EXPECT_EQ(results[0].status, JobStatus::done);
  EXPECT_EQ(std::any_cast<int>(results[1].value), 7);
  expect_tripled(results[2], 1, 4);
  EXPECT_NE(results[3].error->message.find("has no host twin"), std::string::npos);
  expect_scaled(results[4], 2, 3, 3);
  expect_tripled(results[5], 2, 4);
  std::vector<Job> many;
  for (std::size_t i = 0; i < 600; ++i) {
    many.push_back(misbehaving_job(Misdeed::none, i, 1));
    many.back().program = misbehaving_program();
  }
  const auto all = jobs.run(std::move(many));
  for (std::size_t i = 0; i < 600; ++i) expect_tripled(all[i], i, 1);
}

TEST_F(IsolatedJobs, OnSimNothingIsStarted) {
  JobExecutor jobs(open_devices("sim:2"), isolated({"/no/such/program"}));
  CudaSource source;
  source.text = "//";
  source.kernel = misbehaving_kernel;
  source.host_twin = [](JobContext& job) { job.output<int>(1)[0] = 5; };
  Job job;
  job.program = JobProgram::source(source);
  EXPECT_EQ(jobs.run({job})[0].output<int>(0), std::vector<int>{5});
}

TEST_F(IsolatedJobs, AWorkerProgramIsAskedWhoItIsBeforeAnythingRuns) {
  const auto refuse = [](std::vector<std::string> command, const std::string& part, double seconds = 60) {
    JobOptions options = isolated(std::move(command));
    options.worker_start_s = seconds;
    expect_error([&] { JobExecutor jobs(open_devices("host:1x1"), options); }, ErrorClass::usage, part);
  };
  refuse({"/no/such/program"},
         "the worker program '/no/such/program' did not start (start it: No such file or directory)");
  refuse({"no-such-program-on-the-path", "job-worker"},
         "the worker program 'no-such-program-on-the-path' did not start");
  refuse({"/etc/passwd"}, "'/etc/passwd' did not start (start it: Permission denied)");
  refuse({}, "worker_command names no program");
  refuse({"true"},
         "the worker program 'true' ended with exit code 0 before it said who it is; name a program of this "
         "build");
  refuse({"sh", "-c", "kill -9 $$"}, "was killed by signal 9 (Killed) before it said who it is");
  refuse({worker, "other-build"},
         "is of another build (0.0.1, commit old, cc 1; protocol 1) than this one (0.1.0, commit ");
  refuse({worker, "other-protocol"}, "is of another build");
  refuse({worker, "silent"}, "did not say who it is: no answer within 1 s", 1);
  refuse({"sleep", "100"}, "did not say who it is: no answer within 1 s", 1);
  refuse({worker, "garbage"}, "is none: jobs in worker processes: what came is no message of ours");
  refuse({worker, "half-a-hello"}, "is none: jobs in worker processes: a message broke off");
}

// Answers that do not fit are a broken process, not a result.
TEST_F(IsolatedJobs, NonsenseFromAWorkerIsNoResult) {
  const std::vector<std::pair<std::string, std::string>> lies{
      {"wrong-job", "the worker answered job 9 in place of 2"},
      {"wrong-type", "the worker sent 'opened' in place of 'result'"},
      {"short-result", "a message 'result' ends 8 bytes early"},
      {"long-result", "a message 'result' has 8 bytes too many"}};
  for (const auto& [mode, text] : lies) {
    JobExecutor jobs(open_devices("host:1x1"), isolated({worker, mode}));
    const auto results = jobs.run({misbehaving_job(Misdeed::none, 1, 3)});
    ASSERT_EQ(results[0].status, JobStatus::failed) << mode;
    EXPECT_NE(results[0].error->message.find("set aside"), std::string::npos);
    EXPECT_NE(results[0].error->message.find(text), std::string::npos) << results[0].error->message;
    EXPECT_EQ(results[0].attempts, 2);
  }
}

// The fresh processes find that the device is gone: it is lost, and what had not begun goes elsewhere.
TEST_F(IsolatedJobs, ADeviceThatNoFreshProcessCanUseIsLost) {
  const std::string gone = file("gone");
  {
    JobExecutor jobs(open_devices("host:1x1"), isolated({worker, "until", gone}));
    std::vector<Job> batch;
    for (std::size_t i = 0; i < 30; ++i) batch.push_back(misbehaving_job(Misdeed::none, i, 2));
    batch[0] = misbehaving_job(Misdeed::abort, 0, 1, gone);  // leaves the mark, then dies
    batch[0].cost = 1000;
    batch[0].id = "first";
    const auto results = jobs.run(std::move(batch));
    EXPECT_EQ(jobs.states()[0], JobDeviceState::lost);
    const JobDeviceReport device = jobs.report().devices[0];
    EXPECT_EQ(
        device.why_lost,
        "no worker process of 3 in a row could use it; the last: the worker process cannot open host:0: the "
        "GPU is gone");
    for (const JobResult& result : results) {
      ASSERT_EQ(result.status, JobStatus::failed);
      EXPECT_EQ(result.error->error_class, ErrorClass::lost) << result.error->message;
      EXPECT_EQ(result.attempts, result.id == "first" ? 1 : 0);
    }
    expect_at_rest(jobs);
  }
  // From the start: nobody is blamed.
  JobExecutor jobs(open_devices("host:1x1"), isolated({worker, "until", gone}));
  const auto results = jobs.run({misbehaving_job(Misdeed::none, 1, 1), scaling_job(scaled(2), 1, 1)});
  EXPECT_EQ(results[0].attempts, 0);
  EXPECT_NE(results[0].error->message.find("no device is left"), std::string::npos)
      << results[0].error->message;
  EXPECT_EQ(workers(jobs), 0u);
}

}  // namespace
}  // namespace shardwise
