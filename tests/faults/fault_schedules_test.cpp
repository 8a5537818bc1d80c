// Random calls, schedules and faults. 300 here; 10,000 with SHARDWISE_LONG.

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <optional>
#include <random>

#include "fault_calls.hpp"

namespace shardwise::test {
namespace {

/// What one schedule came to.
struct Outcome {
  bool answered = false;
  int met = 0, devices_lost = 0;
};

Outcome run_schedule(std::uint64_t seed, const FaultCall& call, const Bytes& expected) {
  std::mt19937_64 random(seed);
  Outcome outcome;
  Scene scene = fault_scene(random());
  SimWorld& world = *scene.devices().sim_world();
  const std::uint64_t before = work_bytes(scene);
  const double rates[] = {0.002, 0.01, 0.03, 0.1};
  FaultScript script;
  script.random_seed = random();
  script.random_rate = rates[random() % 4];
  const OnDeviceFailure policy = random() % 3 == 0 ? OnDeviceFailure::fail : OnDeviceFailure::failover;
  for (int d = 0; d < 3; ++d)
    if (random() % 4 == 0) {
      Fault slow;
      slow.kind = FaultKind::slow_device;
      slow.device = d;
      slow.factor = 1.0 + static_cast<double>(random() % 100);
      script.faults.push_back(slow);
    }
  SCOPED_TRACE("seed " + std::to_string(seed) + ", " + call.name + ", " + script.text());
  world.set_faults(script);
  std::optional<Answer> answer;
  try {
    answer = call.run(scene, policy);
  } catch (const Error& error) {
    expect_device_error(error);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
  }
  outcome.met = static_cast<int>(world.faults_met().size());
  world.set_faults("");
  if (answer) {
    EXPECT_TRUE(answer->bytes() == expected) << "another answer";
    outcome.answered = true;
    outcome.devices_lost = static_cast<int>(answer->report.failures.size());
  } else {
    EXPECT_GT(outcome.met, 0) << "an error without a fault";
  }
  EXPECT_FALSE(scene.retired()[0]);
  EXPECT_FALSE(scene.is_poisoned());
  answer.reset();
  EXPECT_TRUE(call.run(scene, OnDeviceFailure::fail).bytes() == expected) << "after the faults";
  EXPECT_EQ(work_bytes(scene), before);
  EXPECT_TRUE(world.races().empty()) << world.races().front().text;
  return outcome;
}

TEST(FaultSchedules, AtRandom) {
  const int schedules = std::getenv("SHARDWISE_LONG") ? 10'000 : 300;
  const std::vector<FaultCall> calls = fault_calls();
  std::vector<Bytes> expected;
  for (const FaultCall& call : calls) {
    Scene scene = fault_scene();
    expected.push_back(call.run(scene, OnDeviceFailure::fail).bytes());
  }
  std::map<int, int> by_devices;
  int answered = 0, untouched = 0, met = 0;
  for (int i = 0; i < schedules; ++i) {
    const std::size_t which = static_cast<std::size_t>(i) % calls.size();
    const Outcome outcome = run_schedule(static_cast<std::uint64_t>(1000 + i), calls[which], expected[which]);
    if (HasFailure()) return;
    answered += outcome.answered;
    untouched += outcome.met == 0;
    met += outcome.met;
    if (outcome.answered) ++by_devices[outcome.devices_lost];
  }
  std::printf(
      "%d schedules, %d faults met: %d right answers (%d without a fault, %d after the loss of one device, "
      "%d of two), %d errors\n",
      schedules, met, answered, untouched, by_devices[1], by_devices[2], schedules - answered);
  EXPECT_GT(by_devices[1], schedules / 50);
  EXPECT_GT(schedules - answered, schedules / 50);
}

}  // namespace
}  // namespace shardwise::test
