#include <gtest/gtest.h>

#include "bench/runner.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::bench {
namespace {

TEST(BenchRunner, LeastAndMedian) {
  EXPECT_EQ(spread({3, 1, 2}).min, 1);
  EXPECT_EQ(spread({3, 1, 2}).median, 2);
  EXPECT_EQ(spread({4, 1, 2, 8}).median, 3);
}

TEST(BenchRunner, RunsAreInterleavedAndRatiosFollow) {
  std::string order;
  Case work;
  work.name = "row";
  work.units = 1000;
  work.all = [&] { return order += 'a', 0.5; };
  work.one = [&] { return order += 'o', 1.0; };
  work.limit = "copy";
  work.limit_seconds = [&] { return order += 'l', 0.25; };
  Settings settings;
  settings.repeat = 3;
  const Row row = run_case(work, settings);
  EXPECT_EQ(order,
            "aol"
            "aol"
            "loa"
            "aol");  // a warm-up, then every other round backwards
  EXPECT_TRUE(row.has_one);
  EXPECT_EQ(row.ratio, 2);
  EXPECT_EQ(row.per_unit_ns, 0.5e9 / 1000);
  EXPECT_EQ(row.share_of_limit, 0.5);
}

TEST(BenchRunner, RefusesTimesThatMeanNothing) {
  Case work;
  work.all = [] { return 0.0; };
  EXPECT_THROW(run_case(work, {}), Error);
  work.all = [] { return 1.0; };
  Settings settings;
  settings.repeat = 0;
  EXPECT_THROW(run_case(work, settings), Error);
  const std::atomic<bool> cancel{true};
  settings.repeat = 1;
  settings.cancel = &cancel;
  EXPECT_THROW(run_case(work, settings), Error);
}

}  // namespace
}  // namespace shardwise::bench
