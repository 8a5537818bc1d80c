// What jobs give back, in which order and within which memory, on every platform.

#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "jobs/platform_fixture.hpp"

namespace shardwise {
namespace {

using namespace test;

class Jobs : public JobsOnPlatform {};

TEST_P(Jobs, ResultIAnswersJobI) {
  JobExecutor jobs = executor();
  const JobProgram program = scaled(3);
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 200; ++i) batch.push_back(scaling_job(program, 10 * i, i % 17));
  const std::vector<JobResult> results = jobs.run(std::move(batch));
  ASSERT_EQ(results.size(), 200u);
  std::set<std::string> used;
  for (std::size_t i = 0; i < 200; ++i) {
    expect_scaled(results[i], 3, 10 * i, i % 17);
    EXPECT_EQ(results[i].id, "job " + std::to_string(i));
    EXPECT_EQ(results[i].attempts, 1);
    EXPECT_GE(results[i].queued_s, 0);
    EXPECT_GE(results[i].run_s, 0);
    used.insert(results[i].device);
  }
  if (is_sim()) {
    EXPECT_EQ(static_cast<int>(used.size()), jobs.devices().size());
  }
  const JobReport report = jobs.report();
  EXPECT_EQ(report.jobs, 200u);
  EXPECT_EQ(report.done, 200u);
  std::uint64_t done = 0, cost = 0;
  for (const JobDeviceReport& device : report.devices) done += device.jobs, cost += device.cost;
  EXPECT_EQ(done, 200u);
  EXPECT_EQ(cost, 1574u + 12u) << "empty jobs cost 1";
  EXPECT_GT(report.lower_bound_s, 0);
  EXPECT_GE(report.makespan_s, report.lower_bound_s * 0.999);
  expect_at_rest(jobs);
}

TEST_P(Jobs, NoJobsAndASecondBatch) {
  JobExecutor jobs = executor();
  EXPECT_TRUE(jobs.run({}).empty());
  for (int round = 0; round < 3; ++round) {
    const auto results = jobs.run({scaling_job(scaled(2), 5, 4)});
    expect_scaled(results[0], 2, 5, 4);
    EXPECT_EQ(jobs.report().jobs, 1u);
  }
  expect_at_rest(jobs);
}

TEST_P(Jobs, InputsMayBeBorrowedOwnedEmptyAndSeveral) {
  JobExecutor jobs = executor();
  const JobProgram program = JobProgram::native("sizes", [](JobContext& job) {
    const std::size_t count = job.job().inputs.size();
    auto* out = job.output<std::uint64_t>(count);
    std::vector<const std::byte*> data;
    std::vector<std::uint64_t> bytes;
    for (std::size_t i = 0; i < count; ++i) {
      data.push_back(job.input<std::byte>(i));
      bytes.push_back(job.input_bytes(i));
    }
    auto* second = job.output<std::uint64_t>(0);
    EXPECT_EQ(second, nullptr);
    job.launch("sizes", 1, [=](LaunchContext&) {
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = 0;
        for (std::uint64_t b = 0; b < bytes[i]; ++b) out[i] += static_cast<std::uint64_t>(data[i][b]);
      }
    });
    EXPECT_THROW(job.input_data(count), Error);
  });
  const std::vector<std::uint8_t> borrowed(1000, 2);
  Job job;
  job.program = program;
  job.inputs = {JobInput::borrowed(std::span<const std::uint8_t>(borrowed)), JobInput::owned({}),
                JobInput::owned(std::vector<std::byte>(77, std::byte{3}))};
  EXPECT_EQ(job.inputs[0].bytes().data(), reinterpret_cast<const std::byte*>(borrowed.data()));
  const auto results = jobs.run({job});
  EXPECT_EQ(results[0].output<std::uint64_t>(0), (std::vector<std::uint64_t>{2000, 0, 231}));
  EXPECT_TRUE(results[0].output<std::uint64_t>(1).empty());
  expect_error([&] { results[0].output<std::uint64_t>(2); }, ErrorClass::usage,
               "has 2 outputs, none of index 2");
  std::uint64_t moved = 0;
  for (const JobDeviceReport& device : jobs.report().devices) moved += device.bytes_in;
  EXPECT_GT(moved, 1000u);
  expect_at_rest(jobs);
}

TEST_P(Jobs, TooLargeForEveryDevice) {
  JobOptions options;
  options.memory_bytes = 1 << 20;
  JobExecutor jobs = executor(options);
  Job large = scaling_job(scaled(1), 1, 1);
  large.id = "large";
  large.bytes = (1 << 20) + 1;
  const auto results = jobs.run({large, scaling_job(scaled(1), 1, 1)});
  EXPECT_EQ(results[0].status, JobStatus::failed);
  EXPECT_EQ(results[0].attempts, 0);
  EXPECT_EQ(results[0].error->error_class, ErrorClass::budget);
  EXPECT_NE(results[0].error->message.find(
                "job 'large': it needs 1.00 MiB (1048577 bytes), more than every device"),
            std::string::npos)
      << results[0].error->message;
  EXPECT_EQ(results[1].status, JobStatus::done);
  expect_at_rest(jobs);
}

// Jobs of 60 of 100 bytes: one at a time on a device, whatever its streams could do.
TEST_P(Jobs, StartsOnlyWhenItsBytesAreFree) {
  JobOptions options;
  options.memory_bytes = 100;
  JobExecutor jobs = executor(options);
  std::vector<std::atomic<int>> there(static_cast<std::size_t>(jobs.devices().size()));
  std::atomic<int> most{0};
  const JobProgram program = JobProgram::native("large", [&](JobContext& job) {
    std::atomic<int>& mine = there[static_cast<std::size_t>(job.device_index())];
    const int now = ++mine;
    int seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    job.launch("large", 1, [&mine](LaunchContext&) { --mine; });
  });
  std::vector<Job> batch(60);
  for (Job& job : batch) job.program = program, job.bytes = 60;
  for (const JobResult& result : jobs.run(std::move(batch))) EXPECT_EQ(result.status, JobStatus::done);
  EXPECT_EQ(most, 1);
  for (const std::uint64_t bytes : jobs.bytes()) EXPECT_EQ(bytes, 0u);
  expect_at_rest(jobs);
}

TEST_P(Jobs, PinnedJobsStay) {
  JobExecutor jobs = executor();
  const int last = jobs.devices().size() - 1;
  std::vector<Job> batch;
  for (std::size_t i = 0; i < 50; ++i) {
    batch.push_back(scaling_job(scaled(2), i, 2));
    batch.back().device = last;
  }
  for (const JobResult& result : jobs.run(std::move(batch)))
    EXPECT_EQ(result.device, jobs.devices()[last].name());
  expect_at_rest(jobs);
}

TEST_P(Jobs, RefusesABatchBeforeItRuns) {
  JobExecutor jobs = executor();
  std::atomic<int> calls{0};
  Job good;
  good.id = "a";
  good.program = JobProgram::native("count", [&](JobContext&) { ++calls; });
  Job bad = good;
  bad.id = "b";
  const auto refused = [&](Job job, const std::string& part) {
    expect_error([&] { jobs.run({good, job}); }, ErrorClass::usage, part);
  };
  refused(good, "the id 'a' is that of jobs 0 and 1");
  bad.cost = 0;
  refused(bad, "job 'b' costs 0");
  bad.cost = std::numeric_limits<std::uint64_t>::max();
  refused(bad, "over 64 bits");
  bad.cost = 1;
  bad.program = {};
  refused(bad, "job 'b' has no program");
  bad.program = good.program;
  bad.device = 99;
  refused(bad, "job 'b' is for device 99");
  bad.device.reset();
  bad.timeout_s = 0;
  refused(bad, "a timeout of 0 s");
  bad.timeout_s.reset();
  bad.retries = -1;
  refused(bad, "-1 retries");
  EXPECT_EQ(calls, 0);
  expect_at_rest(jobs);
}

TEST_P(Jobs, SubmitBackpressureAndFutures) {
  JobOptions options;
  options.queue_limit = 8;
  JobExecutor jobs = executor(options);
  const JobProgram program = scaled(9);
  std::vector<JobFuture> futures;
  for (std::size_t i = 0; i < 100; ++i) {
    Job job = scaling_job(program, i, 2);
    job.key = "key " + std::to_string(i % 5);
    futures.push_back(jobs.submit(std::move(job)));
  }
  for (std::size_t i = 0; i < 100; ++i) expect_scaled(futures[i].get(), 9, i, 2);
  EXPECT_THROW(futures[0].get(), Error);

  if (is_sim()) {  // nothing runs until somebody waits: the queue fills
    std::vector<JobFuture> held;
    for (int i = 0; i < 8; ++i) {
      Job job = scaling_job(program, 0, 1);
      held.push_back(*jobs.try_submit(job));
    }
    Job more = scaling_job(program, 7, 1);
    EXPECT_FALSE(jobs.try_submit(more));
    EXPECT_EQ(more.inputs.size(), 1u) << "untouched";
    EXPECT_FALSE(held[0].is_ready());
    jobs.drain();
    EXPECT_TRUE(held[7].is_ready());
    EXPECT_TRUE(jobs.try_submit(more));
    jobs.drain();
  }
  expect_at_rest(jobs);
}

TEST_P(Jobs, AStreamInBothOrders) {
  for (const ResultOrder order : {ResultOrder::completion, ResultOrder::submission}) {
    JobOptions options;
    options.queue_limit = 10;
    JobExecutor jobs = executor(options);
    const JobProgram program = scaled(4);
    std::size_t given = 0, most = 0;
    std::vector<std::string> order_seen;
    jobs.stream(
        [&]() -> std::optional<Job> {
          if (given == 200) return std::nullopt;
          most = std::max(most, given - order_seen.size());
          Job job = scaling_job(program, given, 1 + given % 50);
          job.id = std::to_string(given++);
          job.key = job.id;
          return job;
        },
        [&](JobResult result) {
          const std::size_t i = std::stoul(result.id);
          expect_scaled(result, 4, i, 1 + i % 50);
          order_seen.push_back(result.id);
        },
        order);
    EXPECT_EQ(order_seen.size(), 200u);
    EXPECT_EQ(std::set<std::string>(order_seen.begin(), order_seen.end()).size(), 200u);
    EXPECT_LT(most, 10u) << "no more than queue_limit are under way";
    for (std::size_t i = 0; order == ResultOrder::submission && i < 200; ++i)
      ASSERT_EQ(order_seen[i], std::to_string(i));
    expect_at_rest(jobs);
  }
}

TEST_P(Jobs, ShortJobsGoInGroupsWithTheirOwnResults) {
  JobExecutor jobs = executor();
  const JobProgram program = JobProgram::native("short", [](JobContext& job) {
    auto* out = job.output<std::uint64_t>(1);
    const std::uint64_t value = job.job().cost;
    job.launch("short", 1, [out, value](LaunchContext&) { *out = value; });
  });
  for (int round = 0; round < 2; ++round) {
    std::vector<Job> batch(3000);
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].program = program, batch[i].cost = i + 1;
    const auto results = jobs.run(std::move(batch));
    for (std::size_t i = 0; i < results.size(); ++i)
      ASSERT_EQ(results[i].output<std::uint64_t>(0), std::vector<std::uint64_t>{i + 1});
  }
  if (is_sim()) {
    EXPECT_GT(jobs.report().groups, 10u);
  }
  expect_at_rest(jobs);
}

TEST_P(Jobs, CachesKeepWhatFitsAndCountIt) {
  JobOptions options;
  options.memory_bytes = 1000;
  options.placement = JobPlacement::by_content;
  options.placer.mode = PlacementMode::pinned;
  JobExecutor jobs = executor(options);
  DeviceCache<std::string> cache("names");
  std::atomic<int> made{0};
  const JobProgram program = JobProgram::native("cached", [&](JobContext& job) {
    const auto value = cache.get(job, job.job().key, 300, [&] {
      ++made;
      return job.job().key + "!";
    });
    job.set_value(*value);
  });
  const auto batch_of = [&](const std::vector<std::string>& keys, std::uint64_t bytes) {
    std::vector<Job> batch(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      batch[i].key = keys[i], batch[i].program = program, batch[i].bytes = bytes;
    return batch;
  };
  auto results = jobs.run(batch_of({"a", "a", "a", "a"}, 0));
  for (const JobResult& result : results) EXPECT_EQ(std::any_cast<std::string>(result.value), "a!");
  EXPECT_EQ(made, 1);
  std::uint64_t hits = 0, misses = 0;
  for (const auto& device : jobs.report().devices) hits += device.cache_hits, misses += device.cache_misses;
  EXPECT_EQ(hits, 3u);
  EXPECT_EQ(misses, 1u);
  // A job's bytes push out what nobody uses; "a" is made again.
  results = jobs.run(batch_of({"a"}, 700));
  EXPECT_EQ(results[0].status, JobStatus::done);
  EXPECT_EQ(made, 1);
  results = jobs.run(batch_of({"a"}, 701));
  EXPECT_EQ(results[0].status, JobStatus::failed) << "701 and 300 are over 1000";
  EXPECT_EQ(results[0].error->error_class, ErrorClass::memory);
  EXPECT_NE(results[0].error->message.find("no memory for 'a' of the cache 'names'"), std::string::npos);
  results = jobs.run(batch_of({"a"}, 0));
  EXPECT_EQ(made, 2) << "the job of 701 bytes pushed it out";
  for (const std::uint64_t load : jobs.loads()) EXPECT_EQ(load, 0u);
}

INSTANTIATE_TEST_SUITE_P(Platforms, Jobs, job_platforms(), platform_name);

TEST(JobExecutors, AreOpenedByPlatformAndIndex) {
  EXPECT_EQ(JobExecutor::all("sim:3").devices().size(), 3);
  JobExecutor two = JobExecutor::on("sim:4", {3, 1});
  EXPECT_EQ(two.devices()[0].name(), "sim:3");
  EXPECT_EQ(two.devices()[1].name(), "sim:1");
  expect_error([] { JobExecutor::on("sim:4", {}); }, ErrorClass::usage, "is empty; name at least one");
  expect_error(
      [] {
        JobExecutor::on("sim:4", {2, 0, 2});
      },
      ErrorClass::usage, "device 2 of 'sim:4' is listed twice");
  expect_error([] { JobExecutor::on("sim:4", {4}); }, ErrorClass::usage,
               "there is no device 4 in 'sim:4'; give 0 to 3");
  JobOptions options;
  options.speeds = {1};
  expect_error([&] { JobExecutor::all("sim:2", options); }, ErrorClass::usage, "1 speeds for the 2 devices");
  options.speeds = {1, -2};
  expect_error([&] { JobExecutor::all("sim:2", options); }, ErrorClass::usage, "speed 1 is -2");
}

// Speeds on sim: a device twice as fast takes two thirds, and virtual time says so.
TEST(JobsInVirtualTime, SpeedsAndPull) {
  OpenOptions open;
  open.sim_speeds = {1, 2};
  open.sim_costs.ns_per_item = 1000;
  JobOptions options;
  options.speeds = {1, 2};
  JobExecutor jobs(open_devices("sim:2", open), options);
  const JobProgram program = JobProgram::native("work", [](JobContext& job) {
    job.launch("work", static_cast<std::int64_t>(job.job().cost), [](LaunchContext&) {});
  });
  std::vector<Job> batch(90);
  for (Job& job : batch) job.program = program, job.cost = 1000;
  jobs.run(std::move(batch));
  const JobReport report = jobs.report();
  EXPECT_NEAR(static_cast<double>(report.devices[1].jobs), 60, 2);
  EXPECT_NEAR(report.makespan_s, 0.030, 0.002) << "90 ms of work at speed 3";
  EXPECT_NEAR(report.makespan_s / report.lower_bound_s, 1, 0.05);
}

// Estimates off by e^(0.7 N(0,1)): a pull in the planned order stays near the bound, the plan alone does not.
TEST(JobsInVirtualTime, PullMendsWrongEstimates) {
  Draw draw(3);
  double pulled = 0, planned = 0;
  const int rounds = 20;
  for (int round = 0; round < rounds; ++round) {
    OpenOptions open;
    open.sim_costs.ns_per_item = 1000;
    open.sim_costs.launch_latency_s = 0;
    std::vector<std::uint64_t> truth;
    std::vector<Job> batch(64);
    const JobProgram program = JobProgram::native("work", [&truth](JobContext& job) {
      const std::size_t i = std::stoul(job.job().id);
      job.launch("work", static_cast<std::int64_t>(truth[i]), [](LaunchContext&) {});
    });
    std::vector<std::uint64_t> planned_load(4);
    std::vector<CostItem> items;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const double normal = std::sqrt(-2 * std::log(1 - draw.unit())) * std::cos(6.283185307 * draw.unit());
      batch[i].id = std::to_string(i);
      batch[i].program = program;
      batch[i].cost = static_cast<std::uint64_t>(draw.whole(1000, 20000));
      truth.push_back(
          static_cast<std::uint64_t>(static_cast<double>(batch[i].cost) * std::exp(0.7 * normal)) + 1);
      items.push_back({i, batch[i].cost});
    }
    const CostPlan plan = partition_lpt(std::vector<DeviceLoad>{{0}, {1}, {2}, {3}}, items);
    for (std::size_t d = 0; d < 4; ++d)
      for (const std::uint64_t id : plan.devices[d].ids) planned_load[d] += truth[id];
    const double bound = makespan_lower_bound(std::vector<DeviceLoad>{{0}, {1}, {2}, {3}}, truth) * 1e-6;
    planned +=
        static_cast<double>(*std::max_element(planned_load.begin(), planned_load.end())) * 1e-6 / bound;
    JobExecutor jobs(open_devices("sim:4", open));
    jobs.run(std::move(batch));
    pulled += jobs.report().makespan_s / bound;
  }
  std::printf("makespan over the bound: planned %.3f, pulled %.3f\n", planned / rounds, pulled / rounds);
  EXPECT_GT(planned / rounds, 1.15);
  EXPECT_LT(pulled / rounds, 1.04);
}

}  // namespace
}  // namespace shardwise
