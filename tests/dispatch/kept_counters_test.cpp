// The counters that a scene keeps between calls: whatever became of one call, the next one counts its own
// rows.

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "row_fixture.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::test {
namespace {

/// Counts its inactive rows, then fails where `fails` says so.
RowOperation counting(const bool& fails) {
  RowOperation operation = make_operation(true);
  operation.launch = [count = std::move(operation.launch), &fails](LaunchContext& context,
                                                                   const RowLaunch& launch) {
    count(context, launch);
    if (fails) throw Error(ErrorClass::device, "failed by the test");
  };
  return operation;
}

class KeptCountersOn : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(KeptCountersOn, ACallBehindAFailedOneCountsItsOwnRows) {
  const auto& [spec, alone] = GetParam();
  const DeviceSet devices = open_devices(spec);
  Executor executor(devices);
  RowDispatcher dispatcher(executor);
  const Batch batch = Batch::random(1000, 7);
  const std::int64_t inactive =
      1000 - std::accumulate(batch.active.begin(), batch.active.end(), std::int64_t{0});
  ASSERT_GT(inactive, 0);
  bool fails = false;
  RowOptions options;
  options.mode = alone ? DispatchMode::master : DispatchMode::sharded;
  const auto start = [&] {
    return dispatcher.run(counting(fails), source_of(batch, SourceKind::on_master, true), {}, options);
  };
  for (const int round : {0, 1, 2}) {
    fails = false;
    EXPECT_EQ(start().get().rejected, inactive) << "round " << round;
    EXPECT_EQ(start().get().rejected, inactive) << "round " << round << ", clean counters";
    // Two in flight at once, on streams that keep their order.
    Pending<RowResult> first = start(), second = start();
    EXPECT_EQ(first.get().rejected, inactive);
    EXPECT_EQ(second.get().rejected, inactive);
    fails = true;
    EXPECT_THROW((void)start().get(), Error);
    if (round == 1) {
      EXPECT_THROW((void)start().get(), Error);
    }
  }
  fails = false;
  EXPECT_EQ(start().get().rejected, inactive);
  if (const SimWorld* world = devices.sim_world()) {
    EXPECT_TRUE(world->races().empty());
  }
}

TEST_P(KeptCountersOn, TheyAreMemoryOfTheSceneAndNoMoreThanOneADeviceAndStream) {
  const auto& [spec, alone] = GetParam();
  Executor executor(open_devices(spec));
  RowDispatcher dispatcher(executor);
  const Batch batch = Batch::random(100, 8);
  RowOptions options;
  options.mode = alone ? DispatchMode::master : DispatchMode::sharded;
  const bool ok = false;
  EXPECT_EQ(dispatcher.kept_bytes(0), 0u);
  for (int call = 0; call < 5; ++call)
    (void)dispatcher.run(counting(ok), source_of(batch, SourceKind::on_master, true), {}, options).get();
  for (int d = 0; d < executor.devices().size(); ++d) {
    executor.default_context().streams[static_cast<std::size_t>(d)]->synchronize();
    EXPECT_EQ(dispatcher.kept_bytes(d), alone && d > 0 ? 0 : sizeof(RowCounters)) << d;
    EXPECT_EQ(executor.devices()[d].memory(MemoryUse::scene).current(), dispatcher.kept_bytes(d)) << d;
    EXPECT_EQ(executor.devices()[d].memory(MemoryUse::work).current(), 0u) << d;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, KeptCountersOn,
                         testing::Combine(testing::Values("host:1x2", "host:2x1", "sim:1", "sim:3"),
                                          testing::Bool()));

}  // namespace
}  // namespace shardwise::test
