// Random schedules of everything that can go wrong, on sim: every job ends once, as result, error or
// cancelled; what is done is right; nothing stays promised.

#include <atomic>
#include <map>
#include <stdexcept>

#include "jobs/job_fixture.hpp"

namespace shardwise {
namespace {

using namespace test;

enum class Fault { none, throws_in_call, throws_on_stream, out_of_memory, device_lost, too_slow };

struct Schedule {
  std::uint64_t seed = 0;
  int devices = 1;
  std::size_t jobs = 1;
  int one_in = 10;  ///< calls that go wrong
  bool devices_die = false;
};

class Faults {
 public:
  explicit Faults(const Schedule& schedule)
      : schedule_(schedule), dead_(static_cast<std::size_t>(schedule.devices)) {}

  /// The same answer for the same job and call, whatever the order.
  Fault of(std::size_t job, int call) const {
    Draw draw(schedule_.seed * 1000003 + job * 131 + static_cast<std::uint64_t>(call));
    if (!draw.chance(schedule_.one_in)) return Fault::none;
    const auto kind = draw.whole(0, schedule_.devices_die ? 9 : 8);
    if (kind == 9) return Fault::device_lost;
    if (kind < 3) return Fault::throws_in_call;
    if (kind < 6) return Fault::throws_on_stream;
    return kind == 6 ? Fault::too_slow : Fault::out_of_memory;
  }

  JobProgram program() {
    return JobProgram::native("faulty", [this](JobContext& job) {
      const std::size_t index = static_cast<std::size_t>(std::stoul(job.job().id));
      const auto device = static_cast<std::size_t>(job.device_index());
      const Fault fault = of(index, calls_[index]++);
      ++running_;
      if (dead_[device]) throw Error(ErrorClass::lost, "dead already");
      if (fault == Fault::throws_in_call) throw std::runtime_error("in the call");
      if (fault == Fault::out_of_memory) throw Error(ErrorClass::memory, "out of memory");
      const auto* in = job.job().inputs.empty() ? nullptr : job.input<std::uint64_t>(0);
      auto* out = job.output<std::uint64_t>(2);
      const std::int64_t items =
          fault == Fault::too_slow ? 100'000'000 : static_cast<std::int64_t>(job.job().cost);
      job.launch("work", items, [this, fault, device, in, out, index](LaunchContext&) {
        if (fault == Fault::device_lost) dead_[device] = true;
        if (dead_[device]) throw Error(ErrorClass::lost, "gone");
        if (fault == Fault::throws_on_stream) throw std::runtime_error("on the stream");
        out[0] = index;
        out[1] = in ? 2 * *in : 0;
      });
    });
  }

  int calls(std::size_t job) const {
    const auto found = calls_.find(job);
    return found == calls_.end() ? 0 : found->second;
  }
  bool any_dead() const { return std::find(dead_.begin(), dead_.end(), true) != dead_.end(); }
  bool all_dead() const { return std::find(dead_.begin(), dead_.end(), false) == dead_.end(); }

 private:
  Schedule schedule_;
  std::vector<bool> dead_;
  std::map<std::size_t, int> calls_;
  int running_ = 0;
};

void run_schedule(std::uint64_t seed) {
  SCOPED_TRACE("schedule " + std::to_string(seed));
  Draw draw(seed);
  Schedule schedule;
  schedule.seed = seed;
  schedule.devices = static_cast<int>(draw.whole(1, 5));
  schedule.jobs = static_cast<std::size_t>(draw.whole(1, 60));
  schedule.one_in = static_cast<int>(draw.whole(2, 30));
  schedule.devices_die = draw.chance(2);
  Faults faults(schedule);

  OpenOptions open;
  open.sim_seed = draw.bits();
  open.sim_costs.ns_per_item = draw.chance(2) ? 100 : 1;
  for (int d = 0; d < schedule.devices; ++d) open.sim_speeds.push_back(0.25 + draw.unit());
  JobOptions options;
  if (draw.chance(2)) options.speeds = open.sim_speeds;
  options.retries = static_cast<int>(draw.whole(0, 3));
  options.memory_retries = static_cast<int>(draw.whole(0, 3));
  options.timeout_s = 0.01;
  options.memory_bytes = 1000;
  options.fail_fast = draw.chance(10);
  options.placement = draw.chance(3) ? JobPlacement::by_content : JobPlacement::by_cost;
  options.placer.hash = draw.chance(2) ? ContentHash::modulo : ContentHash::rendezvous;
  options.placer.mode = draw.chance(2) ? PlacementMode::pinned : PlacementMode::bounded;
  options.queue_limit = static_cast<std::size_t>(draw.whole(1, 20));
  const std::size_t cancel_after =
      draw.chance(6) ? static_cast<std::size_t>(draw.whole(1, 10)) : schedule.jobs + 1;
  JobExecutor* executor = nullptr;
  std::map<std::size_t, int> ended;
  options.on_result = [&](std::size_t index, const JobResult&) {
    ++ended[index];
    if (ended.size() == cancel_after) executor->cancel();
  };
  JobExecutor jobs(open_devices("sim:" + std::to_string(schedule.devices), open), options);
  executor = &jobs;

  const JobProgram program = faults.program();
  std::vector<Job> batch(schedule.jobs);
  const bool few_short = draw.chance(2);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Job& job = batch[i];
    job.id = std::to_string(i);
    job.key = std::to_string(draw.whole(0, 5));
    job.program = program;
    job.cost = static_cast<std::uint64_t>(draw.whole(1, few_short ? 20 : 2000));
    job.bytes = static_cast<std::uint64_t>(draw.chance(3) ? draw.whole(0, 1000) : 0);
    if (draw.chance(30)) job.bytes = 1001;
    if (draw.chance(20)) job.device = static_cast<int>(draw.whole(0, schedule.devices - 1));
    if (draw.chance(2)) job.inputs = {JobInput::copied(std::span<const std::uint64_t>(words(i, 1)))};
  }
  const std::vector<Job> given = batch;

  std::vector<JobResult> results(batch.size());
  const bool streamed = draw.chance(3);
  if (streamed) {
    std::size_t next = 0, seen = 0;
    jobs.stream(
        [&]() -> std::optional<Job> {
          return next < batch.size() ? std::optional(batch[next++]) : std::nullopt;
        },
        [&](JobResult result) {
          const std::size_t i = std::stoul(result.id);
          ++ended[i];
          results[i] = std::move(result);
          if (++seen == cancel_after) jobs.cancel();
        },
        draw.chance(2) ? ResultOrder::completion : ResultOrder::submission);
  } else {
    results = jobs.run(std::move(batch));
  }

  ASSERT_EQ(ended.size(), given.size()) << "none lost";
  for (const auto& [index, times] : ended) ASSERT_EQ(times, 1) << "job " << index << " ended twice";
  std::size_t done = 0, failed = 0, cancelled = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const JobResult& result = results[i];
    ASSERT_EQ(result.id, std::to_string(i));
    done += result.status == JobStatus::done;
    failed += result.status == JobStatus::failed;
    cancelled += result.status == JobStatus::cancelled;
    ASSERT_EQ(result.error.has_value(), result.status != JobStatus::done);
    if (result.status == JobStatus::done) {
      const std::uint64_t expected = given[i].inputs.empty() ? 0 : 2 * i;
      ASSERT_EQ(result.output<std::uint64_t>(0), (std::vector<std::uint64_t>{i, expected}));
      ASSERT_LE(given[i].bytes, 1000u);
      if (given[i].device) {
        ASSERT_EQ(result.device, jobs.devices()[*given[i].device].name());
      }
    } else if (result.status == JobStatus::failed && given[i].bytes <= 1000 && !faults.any_dead()) {
      // A job fails for a reason of its own: at least one of its calls went wrong.
      bool any = false;
      for (int call = 0; call < faults.calls(i); ++call) any = any || faults.of(i, call) != Fault::none;
      ASSERT_TRUE(any) << result.error->message;
    }
    if (faults.calls(i) == 0) {
      ASSERT_NE(result.status, JobStatus::done);
    }
  }
  if (!options.fail_fast && cancel_after > given.size()) {
    ASSERT_EQ(cancelled, 0u);
  }
  const JobReport report = jobs.report();
  EXPECT_LE(report.lower_bound_s, report.makespan_s * 1.001);
  for (const JobDeviceReport& device : report.devices)
    EXPECT_LE(device.busy_s, report.makespan_s * 1.001) << device.name << " does one thing at a time";
  if (!streamed) {
    ASSERT_EQ(report.jobs, given.size());
    ASSERT_EQ(report.done, done);
    ASSERT_EQ(report.failed, failed);
    ASSERT_EQ(report.cancelled, cancelled);
  }
  for (int d = 0; d < schedule.devices && !schedule.devices_die; ++d)
    ASSERT_EQ(jobs.states()[static_cast<std::size_t>(d)], JobDeviceState::ok);
  for (const std::uint64_t bytes : jobs.bytes()) ASSERT_EQ(bytes, 0u);
  expect_at_rest(jobs);
}

TEST(JobFaults, RandomSchedulesOnSim) {
  const std::uint64_t schedules = long_run() ? 10000 : 1000;
  for (std::uint64_t seed = 1; seed <= schedules; ++seed) {
    run_schedule(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

// What the platform itself makes fail: any allocation, launch or copy, devices that go away and operations
// that never end. Right results or errors, one for each job.
TEST(JobFaults, ScriptedFaultsOfSimDevices) {
  const int rounds = long_run() ? 3000 : 300;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Draw draw(static_cast<std::uint64_t>(round) + 5);
    OpenOptions open;
    open.sim_seed = draw.bits();
    open.sim_faults =
        "random " + std::to_string(round + 1) + " 0.00" + std::to_string(draw.whole(0, 9)) + "; deadline 5";
    JobOptions options;
    options.retries = 2;
    options.memory_bytes = 1 << 20;
    JobExecutor jobs(open_devices("sim:4", open), options);
    const JobProgram program = scaled(3);
    std::vector<Job> batch;
    for (std::size_t i = 0; i < 60; ++i) batch.push_back(scaling_job(program, i, 1 + i % 9));
    const auto results = jobs.run(std::move(batch));
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_NE(results[i].status, JobStatus::cancelled);
      if (results[i].status == JobStatus::done) expect_scaled(results[i], 3, i, 1 + i % 9);
    }
    for (const std::uint64_t bytes : jobs.bytes()) ASSERT_EQ(bytes, 0u);
    expect_at_rest(jobs);
    if (HasFailure()) return;
  }
}

// The same executor with real threads, where timing is the machine's: failures in both places, a device that
// dies, cancelled half-way in every fourth round.
TEST(JobFaults, RandomFailuresOnHostThreads) {
  const int rounds = long_run() ? 400 : 40;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Draw draw(static_cast<std::uint64_t>(round) + 99);
    std::mutex mutex;
    Draw coin(static_cast<std::uint64_t>(round));
    const auto chance = [&](int one_in) {
      std::lock_guard lock(mutex);
      return coin.chance(one_in);
    };
    std::vector<std::atomic<bool>> dead(4);
    const bool dies = draw.chance(2);
    const JobProgram program = JobProgram::native("faulty", [&](JobContext& job) {
      if (chance(20)) throw std::runtime_error("in the call");
      auto* out = job.output<std::uint64_t>(1);
      const std::uint64_t value = 3 * job.job().cost;
      const int device = job.device_index();
      const bool throws = chance(20), kills = dies && device == 2 && chance(40);
      job.launch("work", 1, [=, &dead](LaunchContext&) {
        if (kills) dead[static_cast<std::size_t>(device)] = true;
        if (dead[static_cast<std::size_t>(device)]) throw Error(ErrorClass::lost, "gone");
        if (throws) throw std::runtime_error("on the stream");
        *out = value;
      });
    });
    JobOptions options;
    options.retries = 3;
    JobExecutor jobs(open_devices("host:4x1"), options);
    std::vector<Job> batch(300);
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].program = program, batch[i].cost = i + 1;
    std::thread canceller;
    if (round % 4 == 0)
      canceller = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(draw.whole(100, 5000)));
        jobs.cancel();
      });
    const auto results = jobs.run(std::move(batch));
    if (canceller.joinable()) canceller.join();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].status == JobStatus::done) {
        ASSERT_EQ(results[i].output<std::uint64_t>(0), std::vector<std::uint64_t>{3 * (i + 1)});
      } else if (results[i].status == JobStatus::cancelled) {
        ASSERT_EQ(round % 4, 0);
      }
    }
    const JobReport report = jobs.report();
    ASSERT_EQ(report.done + report.failed + report.cancelled, 300u);
    expect_at_rest(jobs);
  }
}

}  // namespace
}  // namespace shardwise
