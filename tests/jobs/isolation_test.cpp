// Jobs in worker processes: whatever one does to its process, the others have their results, the devices
// stay, and nothing is left behind.

#include "jobs/isolation_fixture.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "jobs/job_fixture.hpp"

namespace shardwise {
namespace {

using namespace test;
namespace fs = std::filesystem;

const std::string worker = SHARDWISE_ISOLATION_WORKER;

class IsolatedJobs : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("shardwise-isolation-" + std::to_string(getpid()) + "-" +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
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
  fs::path folder_;
};

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

TEST_F(IsolatedJobs, FailFastAndCancelEndWhatRunsAndHangs) {
  JobOptions options = isolated({worker});
  options.fail_fast = true;
  JobExecutor jobs(open_devices("host:2x1"), options);
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 500; ++i) batch.push_back(misbehaving_job(Misdeed::none, i, 1));
  batch[0] = misbehaving_job(Misdeed::throw_in_call, 0, 1);
  batch[0].id = "bad";
  batch[0].cost = 1000;
  batch[1] = misbehaving_job(Misdeed::hang, 0, 1);
  batch[1].cost = 1000;
  const auto begin = std::chrono::steady_clock::now();
  const auto results = jobs.run(std::move(batch));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(results[0].status, JobStatus::failed);
  EXPECT_EQ(results[1].status, JobStatus::cancelled);
  const JobReport report = jobs.report();
  EXPECT_EQ(report.failed, 1u);
  EXPECT_EQ(report.done + report.failed + report.cancelled, 500u);

  // The same by hand, from another thread, while both devices hang; then they work again.
  std::vector<Job> hanging;
  for (int i = 0; i < 10; ++i) hanging.push_back(misbehaving_job(Misdeed::hang, 0, 1));
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    jobs.cancel();
  });
  for (const JobResult& result : jobs.run(std::move(hanging))) EXPECT_EQ(result.status, JobStatus::cancelled);
  canceller.join();
  expect_tripled(jobs.run({misbehaving_job(Misdeed::none, 4, 4)})[0], 4, 4);
  expect_all_ok(jobs);
  expect_at_rest(jobs);
}

TEST_F(IsolatedJobs, AWorkerThatIsKilledBetweenJobsIsNobodysFault) {
  JobExecutor jobs(open_devices("host:1x1"), isolated({worker}));
  for (int round = 0; round < 3; ++round) {
    const std::string mark = file("process" + std::to_string(round));
    expect_tripled(jobs.run({misbehaving_job(Misdeed::none, 1, 2, mark)})[0], 1, 2);
    const pid_t process = process_in(mark);
    ASSERT_GT(process, 0);
    ASSERT_EQ(kill(process, SIGKILL), 0);
    ASSERT_TRUE(goes(process));
    const std::string other = mark + " again";
    const auto results = jobs.run({misbehaving_job(Misdeed::none, 1, 2, other)});
    expect_tripled(results[0], 1, 2);
    EXPECT_EQ(results[0].attempts, 1);
    EXPECT_NE(process_in(other), process);
  }
}

TEST_F(IsolatedJobs, NothingIsLeftBehind) {
  const std::string mark = file("worker"), child = file("child");
  {
    JobExecutor jobs(open_devices("host:1x1"), isolated({worker}));
    Job job = misbehaving_job(Misdeed::leave_a_child, 1, 1);
    job.key = child;
    EXPECT_EQ(jobs.run({job})[0].status, JobStatus::failed);
    EXPECT_TRUE(goes(process_in(child))) << "what a worker starts goes with it";
    jobs.run({misbehaving_job(Misdeed::none, 1, 1, mark)});
    EXPECT_EQ(kill(process_in(mark), 0), 0) << "it waits for more";
  }
  EXPECT_TRUE(goes(process_in(mark)));
}

// The executor is killed without a chance to say anything, while its job hangs.
TEST_F(IsolatedJobs, AKilledExecutorLeavesNoWorker) {
  const std::string mark = file("worker");
  const pid_t executor = fork();
  ASSERT_GE(executor, 0);
  if (executor == 0) {
    execl(worker.c_str(), worker.c_str(), "executor", mark.c_str(), nullptr);
    _exit(127);
  }
  const pid_t process = process_in(mark);
  ASSERT_GT(process, 0);
  EXPECT_EQ(kill(process, 0), 0);
  EXPECT_EQ(kill(executor, SIGKILL), 0);
  int status = 0;
  EXPECT_EQ(waitpid(executor, &status, 0), executor);
  EXPECT_TRUE(goes(process));
}

TEST_F(IsolatedJobs, AWorkerByHandSaysWhatItIs) {
  const std::string output = file("said");
  const int status = std::system((worker + " < /dev/null > " + output + " 2>&1").c_str());
  EXPECT_NE(status, 0);
  std::ifstream said(output);
  const std::string text((std::istreambuf_iterator<char>(said)), std::istreambuf_iterator<char>());
  EXPECT_NE(text.find("a job worker is started by an executor"), std::string::npos) << text;
}

TEST_F(IsolatedJobs, SubmittedAndStreamedJobsToo) {
  JobOptions options = isolated({worker});
  options.queue_limit = 10;
  JobExecutor jobs(open_devices("host:2x1"), options);
  std::size_t given = 0, seen = 0;
  jobs.stream(
      [&]() -> std::optional<Job> {
        if (given == 100) return std::nullopt;
        Job job = misbehaving_job(given % 25 == 3 ? Misdeed::abort : Misdeed::none, given, 2);
        job.id = std::to_string(given);
        job.key = job.id;
        ++given;
        return job;
      },
      [&](JobResult result) {
        const std::size_t i = std::stoul(result.id);
        EXPECT_EQ(i, seen++) << "in the order of submission";
        if (i % 25 == 3)
          EXPECT_EQ(result.status, JobStatus::failed);
        else
          expect_tripled(result, i, 2);
      },
      ResultOrder::submission);
  EXPECT_EQ(seen, 100u);
  expect_tripled(jobs.submit(misbehaving_job(Misdeed::none, 8, 8)).get(), 8, 8);
  expect_all_ok(jobs);
  expect_at_rest(jobs);
}

// Random misdeeds, each for good or once, on one to three devices: what becomes of a job follows from its own
// misdeed alone, every job ends once, and at rest nothing is promised.
TEST_F(IsolatedJobs, RandomMisdeeds) {
  const std::uint64_t seeds = long_run() ? 60 : 5;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    const auto devices = draw.whole(1, 3);
    JobOptions options = isolated({worker});
    options.retries = static_cast<int>(draw.whole(1, 2));
    options.memory_retries = 1;
    options.placement = draw.chance(2) ? JobPlacement::by_content : JobPlacement::by_cost;
    std::map<std::size_t, int> ended;
    options.on_result = [&](std::size_t index, const JobResult&) { ++ended[index]; };
    JobExecutor jobs(open_devices("host:" + std::to_string(devices) + "x1"), options);
    constexpr auto most = static_cast<std::int64_t>(Misdeed::hang_on_stream);
    std::vector<Job> batch;
    std::vector<std::pair<Misdeed, bool>> planned;
    for (std::size_t i = 0; i < 150; ++i) {
      const auto misdeed = draw.chance(10) ? static_cast<Misdeed>(draw.whole(0, most)) : Misdeed::none;
      const bool once = draw.chance(2);
      planned.emplace_back(misdeed, once);
      batch.push_back(misbehaving_job(misdeed, i, static_cast<std::size_t>(draw.whole(0, 300)),
                                      once ? file(std::to_string(seed) + "-" + std::to_string(i)) : ""));
      batch.back().id = std::to_string(i);
      batch.back().key = std::to_string(draw.whole(0, 9));
      batch.back().cost = static_cast<std::uint64_t>(draw.whole(1, 100));
      if (misdeed == Misdeed::hang || misdeed == Misdeed::hang_on_stream) batch.back().timeout_s = 1;
    }
    std::vector<std::size_t> counts;
    for (const Job& job : batch) counts.push_back(job.inputs[0].bytes().size() / sizeof(std::uint64_t));
    const auto results = jobs.run(std::move(batch));
    ASSERT_EQ(ended.size(), results.size());
    std::size_t set_aside = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE("job " + std::to_string(i) + ", misdeed " +
                   std::to_string(static_cast<int>(planned[i].first)) + (planned[i].second ? " once" : ""));
      ASSERT_EQ(ended[i], 1);
      const auto [misdeed, once] = planned[i];
      if (misdeed == Misdeed::none || once) {
        ASSERT_NO_FATAL_FAILURE(expect_tripled(results[i], i, counts[i]));
        ASSERT_EQ(results[i].attempts, misdeed == Misdeed::none ? 1 : 2);
        continue;
      }
      ASSERT_EQ(results[i].status, JobStatus::failed);
      const bool breaks = misdeed == Misdeed::abort || misdeed == Misdeed::exit ||
                          misdeed == Misdeed::bad_pointer || misdeed == Misdeed::lost;
      set_aside += breaks;
      ASSERT_EQ(results[i].attempts, breaks || misdeed == Misdeed::no_memory ? 2 : 1 + options.retries);
    }
    const JobReport report = jobs.report();
    EXPECT_EQ(report.jobs, 150u);
    EXPECT_EQ(report.set_aside.size(), set_aside);
    EXPECT_EQ(report.done + report.failed, 150u);
    expect_all_ok(jobs);
    expect_at_rest(jobs);
    for (const std::uint64_t bytes : jobs.bytes()) ASSERT_EQ(bytes, 0u);
  }
}

// Somebody kills processes at random, whatever they are at: starting, opening, working, waiting. A job that
// was hit twice is set aside, a device whose starts were hit three times is lost; all else is done, and
// right.
TEST_F(IsolatedJobs, KilledAtRandomMoments) {
  if (!fs::exists("/proc/thread-self/children")) GTEST_SKIP() << "the kernel does not list children";
  const std::uint64_t seeds = long_run() ? 30 : 3;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::map<std::size_t, int> ended;
    JobOptions options = isolated({worker});
    options.on_result = [&](std::size_t index, const JobResult&) { ++ended[index]; };
    JobExecutor jobs(open_devices("host:3x1"), options);
    std::atomic<bool> over{false};
    std::atomic<int> killed{0};
    std::thread killer([&] {
      Draw draw(seed);
      while (!over) {
        std::this_thread::sleep_for(std::chrono::microseconds(draw.whole(1000, 120'000)));
        std::vector<pid_t> children;
        for (const auto& task : fs::directory_iterator("/proc/self/task")) {
          std::ifstream list(task.path() / "children");
          for (pid_t child = 0; list >> child;) children.push_back(child);
        }
        if (children.empty()) continue;
        const auto one =
            static_cast<std::size_t>(draw.whole(0, static_cast<std::int64_t>(children.size()) - 1));
        killed += kill(children[one], SIGKILL) == 0;
      }
    });
    std::vector<JobResult> results;
    std::vector<Job> batch;
    for (std::size_t i = 0; i < 200; ++i) batch.push_back(misbehaving_job(Misdeed::pause, i, 1 + i % 9));
    results = jobs.run(std::move(batch));
    over = true;
    killer.join();
    EXPECT_GT(killed, 0) << "nothing was tested";
    ASSERT_EQ(ended.size(), 200u);
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_EQ(ended[i], 1);
      if (results[i].status == JobStatus::done) {
        expect_tripled(results[i], i, 1 + i % 9);
        continue;
      }
      const std::string& text = results[i].error->message;
      EXPECT_TRUE(text.find("was killed by signal 9 (Killed)") != std::string::npos ||
                  text.find("no device is left") != std::string::npos)
          << text;
    }
    expect_at_rest(jobs);
    for (const std::uint64_t bytes : jobs.bytes()) ASSERT_EQ(bytes, 0u);
  }
}

}  // namespace
}  // namespace shardwise
