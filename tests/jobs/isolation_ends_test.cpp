// Jobs in worker processes: how they end. Cancelled, killed from outside at any moment, with the executor;
// nothing is left behind.

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
