#include "shardwise/shard/chunk_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "shard/random.hpp"
#include "shardwise/shard/split.hpp"

namespace shardwise {
namespace {

std::optional<PlanRefused> refusal(const ChunkRequest& request) {
  try {
    plan_chunks(request);
  } catch (const PlanRefused& refused) {
    return refused;
  }
  return std::nullopt;
}

std::string bad_request(const ChunkRequest& request) {
  try {
    plan_chunks(request);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

ChunkRequest rows_request() {
  ChunkRequest request;
  request.rows = 1000;
  request.row_bytes = 100;
  request.fixed_bytes = 50;
  request.resident_chunks = 3;
  return request;
}

TEST(ChunkPlan, NothingGivenIsOneLaunch) {
  const ChunkPlan plan = plan_chunks(rows_request());
  EXPECT_EQ(plan.source, ChunkSource::whole_shard);
  EXPECT_EQ(plan.chunk_rows, 1000);
  EXPECT_EQ(plan.chunk_count, 1);
  EXPECT_EQ(plan.resident_chunks, 1);
  EXPECT_EQ(plan.budget_bytes, 0u);
  EXPECT_EQ(plan.estimated_peak_bytes(), 100050u);
}

TEST(ChunkPlan, AnExplicitSizeIsTakenAsGiven) {
  ChunkRequest request = rows_request();
  request.explicit_chunk = 300;
  request.free_bytes = 10;  // not a budget that anyone promised
  const ChunkPlan plan = plan_chunks(request);
  EXPECT_EQ(plan.source, ChunkSource::explicit_size);
  EXPECT_EQ(plan.chunk_rows, 300);
  EXPECT_EQ(plan.chunk_count, 4);
  EXPECT_EQ(plan.resident_chunks, 3);
  EXPECT_EQ(plan.budget_bytes, 0u);
  request.explicit_chunk = 600;
  EXPECT_EQ(plan_chunks(request).resident_chunks, 2) << "two chunks are never three";
  request.explicit_chunk = 5000;
  EXPECT_EQ(plan_chunks(request).chunk_rows, 1000);
}

TEST(ChunkPlan, AnExplicitSizeBesideABudgetFitsOrIsRefused) {
  ChunkRequest request = rows_request();
  request.explicit_chunk = 200;
  request.budget_bytes = 50 + 200 * 100 * 3;
  EXPECT_EQ(plan_chunks(request).chunk_rows, 200);
  EXPECT_EQ(plan_chunks(request).budget_bytes, request.budget_bytes);
  request.budget_bytes -= 1;
  const auto refused = refusal(request);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->needed_bytes(), 60050u);
  EXPECT_EQ(refused->budget_bytes(), 60049u);
  EXPECT_EQ(refused->largest_chunk(), 199);
  EXPECT_STREQ(
      refused->what(),
      "memory: a chunk of 200 rows needs 60050 bytes (50 fixed + 200 x 100 x 3), above the budget of 60049 "
      "bytes; the largest chunk that fits has 199 rows");
}

TEST(ChunkPlan, ABudgetGivesTheLargestChunk) {
  ChunkRequest request = rows_request();
  request.budget_bytes = 60049;
  const ChunkPlan plan = plan_chunks(request);
  EXPECT_EQ(plan.source, ChunkSource::budget);
  EXPECT_EQ(plan.chunk_rows, 199);
  EXPECT_EQ(plan.chunk_count, 6);
  EXPECT_EQ(plan.resident_chunks, 3);
  EXPECT_EQ(plan.estimated_peak_bytes(), 50u + 199 * 300);
  request.budget_bytes = 100050;
  EXPECT_EQ(plan_chunks(request).source, ChunkSource::whole_shard);
  EXPECT_EQ(plan_chunks(request).budget_bytes, 100050u);
}

TEST(ChunkPlan, FreeMemoryIsABudgetOfEightyPercent) {
  ChunkRequest request = rows_request();
  request.free_bytes = 50099;
  const ChunkPlan plan = plan_chunks(request);
  EXPECT_EQ(plan.budget_bytes, 40079u);
  EXPECT_EQ(plan.chunk_rows, (40079 - 50) / 300);
  EXPECT_NE(plan.reason.find("80 % of 50099 bytes free"), std::string::npos) << plan.reason;
  request.free_bytes = UINT64_MAX;
  EXPECT_EQ(plan_chunks(request).budget_bytes, UINT64_MAX / 5 * 4);
}

TEST(ChunkPlan, RefusesABudgetBelowOneRowNamingTheBytes) {
  ChunkRequest request = rows_request();
  request.device = "host:1";
  request.budget_bytes = 349;
  const auto refused = refusal(request);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->needed_bytes(), 350u);
  EXPECT_EQ(refused->largest_chunk(), 0);
  EXPECT_STREQ(
      refused->what(),
      "memory: 349 bytes (the budget) on device host:1 do not hold the smallest chunk of 1 rows, which needs "
      "350 bytes (50 fixed + 1 x 100 x 3); give at least 350 bytes, or a smaller problem");
  request.budget_bytes = 350;
  EXPECT_EQ(plan_chunks(request).chunk_rows, 1);
  request.budget_bytes = 10;  // below the fixed bytes alone
  EXPECT_EQ(refusal(request)->needed_bytes(), 350u);
}

TEST(ChunkPlan, LanesNeedAWarp) {
  ChunkRequest request = rows_request();
  request.unit = "lanes";
  request.least_rows = kLeastLanes;
  request.resident_chunks = 1;
  request.budget_bytes = 50 + 31 * 100;
  EXPECT_EQ(refusal(request)->needed_bytes(), 50u + 3200);
  request.budget_bytes = 50 + 3200;
  EXPECT_EQ(plan_chunks(request).chunk_rows, 32);
  request.rows = 7;  // fewer than a warp are still a shard
  request.budget_bytes = 50 + 700;
  EXPECT_EQ(plan_chunks(request).chunk_rows, 7);
}

TEST(ChunkPlan, TheCapLimitsWithItsReason) {
  ChunkRequest request = rows_request();
  request.cap_rows = 400;
  request.cap_reason = "an accumulator holds 2^31 crossings";
  ChunkPlan plan = plan_chunks(request);
  EXPECT_EQ(plan.source, ChunkSource::cap);
  EXPECT_EQ(plan.chunk_rows, 400);
  EXPECT_EQ(plan.chunk_count, 3);
  EXPECT_EQ(plan.reason, request.cap_reason);
  request.budget_bytes = 60049;
  EXPECT_EQ(plan_chunks(request).source, ChunkSource::budget);
  request.budget_bytes = 0;
  request.explicit_chunk = 401;
  EXPECT_EQ(bad_request(request),
            "plan: the chunk size of 401 rows is above the largest, 400 (an accumulator holds 2^31 "
            "crossings); give "
            "at most that, or none");
  request.rows = 400;  // the shard itself is below the cap: nothing to refuse
  EXPECT_EQ(plan_chunks(request).chunk_rows, 400);
}

TEST(ChunkPlan, RefusesMalformedRequests) {
  ChunkRequest request = rows_request();
  request.rows = -1;
  EXPECT_NE(bad_request(request).find("-1 rows"), std::string::npos);
  request = rows_request();
  request.explicit_chunk = -7;
  EXPECT_NE(bad_request(request).find("a chunk of -7 rows"), std::string::npos);
  request = rows_request();
  request.resident_chunks = 0;
  EXPECT_NE(bad_request(request).find("0 resident chunks"), std::string::npos);
  request = rows_request();
  request.least_rows = 32;
  request.cap_rows = 31;
  EXPECT_NE(bad_request(request).find("at most 31 rows"), std::string::npos);
  request.cap_rows = -5;
  EXPECT_NE(bad_request(request).find("at most -5 rows"), std::string::npos);
}

TEST(ChunkPlan, AnEmptyShardHasNoChunks) {
  ChunkRequest request = rows_request();
  request.rows = 0;
  const ChunkPlan plan = plan_chunks(request);
  EXPECT_EQ(plan.chunk_count, 0);
  EXPECT_TRUE(sub_windows({5, 0}, plan.chunk_rows).empty());
}

TEST(ChunkPlan, ExplainNamesEveryNumber) {
  ChunkRequest request = rows_request();
  request.budget_bytes = 60049;
  ChunkPlan plan = plan_chunks(request);
  EXPECT_EQ(plan.explain(),
            "6 chunks of 199 rows (budget): the largest chunk that fits the budget\n"
            "estimated peak 59750 bytes = 50 fixed + 199 x 100 bytes x 3 resident, budget 60049\n");
  plan.measured_row_bytes = 98.5;
  EXPECT_NE(plan.explain("lanes").find("measured 98.5 bytes a row"), std::string::npos);
}

// The answer is compared with trying every size.
TEST(ChunkPlan, IsTheLargestThatFitsAmongAllSizes) {
  test::Draw draw(12);
  int refused_rounds = 0, planned_rounds = 0;
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(round);
    ChunkRequest request;
    request.rows = draw.whole(1, 200);
    request.row_bytes = static_cast<std::uint64_t>(draw.whole(0, 40));
    request.fixed_bytes = static_cast<std::uint64_t>(draw.whole(0, 300));
    request.resident_chunks = static_cast<int>(draw.whole(1, 5));
    request.least_rows = draw.chance(2) ? 1 : 32;
    request.budget_bytes = static_cast<std::uint64_t>(draw.whole(1, 6000));
    if (draw.chance(2)) request.cap_rows = draw.whole(32, 250);
    const auto peak = [&](std::int64_t chunk) {
      const std::int64_t count = (request.rows + chunk - 1) / chunk;
      const auto alive = static_cast<std::uint64_t>(std::min<std::int64_t>(count, request.resident_chunks));
      return request.fixed_bytes + static_cast<std::uint64_t>(chunk) * request.row_bytes * alive;
    };
    const std::int64_t limit = request.cap_rows > 0 ? std::min(request.rows, request.cap_rows) : request.rows;
    const std::int64_t least = std::min(request.least_rows, limit);
    std::int64_t best = 0;
    std::uint64_t cheapest = UINT64_MAX;
    for (std::int64_t chunk = least; chunk <= limit; ++chunk) {
      if (peak(chunk) <= request.budget_bytes) best = chunk;
      cheapest = std::min(cheapest, peak(chunk));
    }
    const auto refused = refusal(request);
    EXPECT_EQ(refused.has_value(), best == 0);
    if (refused) {
      EXPECT_EQ(refused->needed_bytes(), cheapest);
      // What the refusal asks for is enough.
      request.budget_bytes = refused->needed_bytes();
      EXPECT_FALSE(refusal(request));
      ++refused_rounds;
      continue;
    }
    const ChunkPlan plan = plan_chunks(request);
    EXPECT_EQ(plan.chunk_rows, best);
    EXPECT_EQ(plan.estimated_peak_bytes(), peak(best));
    EXPECT_EQ(plan.chunk_count, sub_windows({3, request.rows}, plan.chunk_rows).size());
    ++planned_rounds;
  }
  EXPECT_GT(refused_rounds, 100);
  EXPECT_GT(planned_rounds, 100);
}

TEST(ChunkPlan, AHalvedLastChunkCoversTheShardInTheCountedChunks) {
  test::Draw draw(14);
  int halved = 0;
  for (int round = 0; round < 20000; ++round) {
    ChunkRequest request;
    request.rows = draw.whole(0, 60);
    request.explicit_chunk = draw.whole(1, 20);
    ChunkPlan plan = plan_chunks(request);
    const std::int64_t last =
        request.rows - std::max<std::int64_t>(plan.chunk_count - 1, 0) * plan.chunk_rows;
    halve_last_chunk(plan, request.rows);
    std::int64_t left = request.rows, chunks = 0, rows = 0;
    for (; left > 0; left -= rows, ++chunks) {
      rows = plan.next_rows(left);
      ASSERT_GE(rows, 1);
      ASSERT_LE(rows, plan.chunk_rows);
    }
    ASSERT_EQ(left, 0);
    ASSERT_EQ(chunks, plan.chunk_count) << request.rows << " rows in chunks of " << plan.chunk_rows;
    if (!plan.halves_last) continue;
    ++halved;
    ASSERT_EQ(rows, last / 2);
  }
  EXPECT_GT(halved, 1000);
}

TEST(ChunkPlan, HugeNumbersSaturateAndNeverWrap) {
  test::Draw draw(13);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    ChunkRequest request;
    request.rows = draw.magnitude(62) + 1;
    request.row_bytes = draw.bits() >> draw.whole(0, 63);
    request.fixed_bytes = draw.bits() >> draw.whole(0, 63);
    request.budget_bytes = (draw.bits() >> draw.whole(0, 63)) | 1;
    request.resident_chunks = static_cast<int>(draw.whole(1, 3));
    if (refusal(request)) continue;
    const ChunkPlan plan = plan_chunks(request);
    EXPECT_LE(plan.estimated_peak_bytes(), request.budget_bytes);
    EXPECT_GE(plan.chunk_rows, 1);
    EXPECT_LE(plan.chunk_rows, request.rows);
  }
  ChunkRequest request;
  request.rows = INT64_MAX;
  request.row_bytes = UINT64_MAX;
  request.budget_bytes = UINT64_MAX - 1;
  EXPECT_EQ(refusal(request)->needed_bytes(), UINT64_MAX);
}

}  // namespace
}  // namespace shardwise
