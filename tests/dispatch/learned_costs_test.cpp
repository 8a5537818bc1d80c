// What calls teach about the cost of a row, and what they do not.

#include "dispatch/learned_costs.hpp"

#include <gtest/gtest.h>

#include "row_fixture.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise::test {
namespace {

/// On simulated devices a launch of a few rows takes what any launch takes, which says nothing of what rows
/// take.
TEST(LearnedCosts, TinyCallsTeachNothingOfLargeOnes) {
  OpenOptions open;
  open.sim_speeds = {1.0, 1.0 / 3.0};
  Executor executor(open_devices("sim:2", open));
  RowDispatcher dispatcher(executor);
  const Batch large = Batch::random(400000, 4), tiny = Batch::random(32, 5);
  const auto lanes_of_second = [&](const Batch& batch, std::vector<double> weights) {
    RowSink sink;
    sink.kind = SinkKind::reduce;
    sink.reducer = tally_reducer();
    RowOptions options;
    options.min_rows_per_device = 0;
    options.weights = std::move(weights);
    options.measured = true;
    return dispatcher.run(make_operation(false), generator_of(batch, false), sink, options)
        .get()
        .dispatch.devices[1]
        .lanes;
  };
  // Before: what they seem to say is gone with the first large call.
  for (int i = 0; i < 3; ++i) (void)lanes_of_second(tiny, {1, 1});
  (void)lanes_of_second(large, {});
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(static_cast<double>(lanes_of_second(large, {})), 100000, 3000) << "call " << i;
  // Between large ones, on all devices and on one alone.
  for (int i = 0; i < 4; ++i) {
    (void)lanes_of_second(tiny, i % 2 == 0 ? std::vector<double>{1, 1} : std::vector<double>{1, 0});
    EXPECT_NEAR(static_cast<double>(lanes_of_second(large, {})), 100000, 3000) << "after tiny call " << i;
  }
  // In a row, as where an application warms up.
  for (int i = 0; i < 5; ++i) (void)lanes_of_second(tiny, {1, 1});
  EXPECT_NEAR(static_cast<double>(lanes_of_second(large, {})), 100000, 3000);
}

/// Calls that are small from now on are learned from in the end.
TEST(LearnedCosts, FollowCallsThatBecomeSmall) {
  LearnedCosts learned;
  const auto call = [&](std::int64_t rows, double row_s) {
    DeviceSample sample;
    sample.rows = rows;
    sample.compute_s = static_cast<double>(rows) * row_s;
    learned.learn("key", DispatchMode::master, {sample}, sample.compute_s + 1e-5);
    return learned.find("key")->devices.front().compute_s;
  };
  for (int i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(call(1 << 20, 1e-9), 1e-9);
  EXPECT_DOUBLE_EQ(call(1 << 10, 5e-9), 1e-9);
  double now = 0;
  for (int i = 0; i < 30; ++i) now = call(1 << 10, 5e-9);
  EXPECT_NEAR(now, 5e-9, 0.2e-9);
  EXPECT_EQ(learned.find("key")->calls, 34);
  EXPECT_FALSE(learned.wants_sample("key", DispatchMode::master, 1 << 10));
  EXPECT_TRUE(learned.wants_sample("key", DispatchMode::master, 1 << 20));
  // And a large one says it all again.
  EXPECT_DOUBLE_EQ(call(1 << 20, 1e-9), 1e-9);
}

}  // namespace
}  // namespace shardwise::test
