#include "shardwise/shard/stream_placer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>

#include "shard/placement_table.hpp"
#include "shard/random.hpp"

namespace shardwise {
namespace {

using test::Draw;

std::vector<PlacementDevice> named(int count) {
  std::vector<PlacementDevice> devices;
  for (int d = 0; d < count; ++d) devices.push_back({"GPU-" + std::to_string(d)});
  return devices;
}

void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ShardByContent, IsValueCompatible) {
  for (const test::PlacementRow& row : test::kPlacements)
    for (std::uint32_t n = 2; n <= 16; ++n)
      EXPECT_EQ(shard_by_content(row.key, n), row.device[n - 2]) << "key '" << row.key << "' on " << n;
  EXPECT_EQ(shard_by_content("anything", 1), 0u);
  expect_refused([] { shard_by_content("a", 0); }, "n is 0");
}

// A fifth device moves four of five keys by modulo, and about one of five by rendezvous; one that goes moves
// its own keys only.
TEST(Rendezvous, MovesFewKeys) {
  constexpr int keys = 20000;
  const Rendezvous four(named(4)), five(named(5));
  int moved = 0, moved_by_modulo = 0, elsewhere = 0;
  for (int k = 0; k < keys; ++k) {
    const std::string key = "key " + std::to_string(k);
    moved += four.first(key) != five.first(key);
    moved_by_modulo += shard_by_content(key, 4) != shard_by_content(key, 5);
    elsewhere += five.first(key) != 4 && five.first(key) != four.first(key);
    const std::vector<int> ranking = five.ranking(key);
    ASSERT_EQ(ranking.front(), five.first(key));
    // Without its first choice a key goes to its second.
    std::vector<PlacementDevice> rest = named(5);
    rest.erase(rest.begin() + ranking[0]);
    if (k < 200) {
      ASSERT_EQ(rest[static_cast<std::size_t>(Rendezvous(rest).first(key))].name,
                named(5)[static_cast<std::size_t>(ranking[1])].name);
    }
  }
  EXPECT_EQ(elsewhere, 0) << "a key moved between two devices that were there before";
  EXPECT_NEAR(moved, keys / 5, keys / 50);
  EXPECT_NEAR(moved_by_modulo, keys * 4 / 5, keys / 50);
}

TEST(Rendezvous, SharesFollowWeights) {
  const Rendezvous devices({{"a", 1}, {"b", 3}});
  int second = 0;
  for (int k = 0; k < 20000; ++k) second += devices.first(std::to_string(k));
  EXPECT_NEAR(second, 15000, 300);
}

TEST(Rendezvous, NamesCountNotOrder) {
  const Rendezvous one({{"x"}, {"y"}, {"z"}}), other({{"z"}, {"x"}, {"y"}});
  const char* first[] = {"x", "y", "z"};
  const char* second[] = {"z", "x", "y"};
  for (int k = 0; k < 1000; ++k) {
    const std::string key = std::to_string(k);
    ASSERT_STREQ(first[one.first(key)], second[other.first(key)]);
  }
}

TEST(Rendezvous, RefusesWithTheOffender) {
  expect_refused([] { Rendezvous({}); }, "no devices");
  expect_refused([] { Rendezvous({{"a"}, {"b"}, {"a"}}); }, "devices 0 and 2 are both named 'a'");
  expect_refused([] { Rendezvous({{"a", -1}}); }, "device 0 ('a') has the weight -1");
}

// 10^5 streams without completions and seeds: the stated bound, for both hashes.
TEST(StreamPlacerProperty, BoundedStaysInItsBound) {
  Draw draw(21);
  const int streams = std::getenv("SHARDWISE_LONG") ? 1000000 : 100000;
  for (int stream = 0; stream < streams; ++stream) {
    const int m = static_cast<int>(draw.whole(1, 8));
    PlacerOptions options;
    options.hash = draw.chance(2) ? ContentHash::modulo : ContentHash::rendezvous;
    options.spill_threshold = static_cast<std::uint64_t>(draw.magnitude(12));
    StreamPlacer placer(named(m), options);
    const auto keys = draw.whole(1, 6), most = draw.whole(1, 200);
    std::uint64_t c_max = 0, total = 0;
    for (int i = 0; i < 30; ++i) {
      const auto cost = static_cast<std::uint64_t>(draw.whole(0, most));
      const std::string key = std::to_string(draw.whole(1, keys));
      const auto placement = placer.place(key, cost);
      ASSERT_EQ(placement.has_value(), cost > 0);
      c_max = std::max(c_max, cost);
      total += cost;
      if (placement && !placement->spilled) {
        ASSERT_EQ(placement->device, placer.content_device(key));
      }
      const auto [least, largest] = std::minmax_element(placer.loads().begin(), placer.loads().end());
      ASSERT_LE(*largest - *least, options.spill_threshold + c_max) << "stream " << stream << ", item " << i;
      const double bound = static_cast<double>(total) / m +
                           (1 - 1.0 / m) * static_cast<double>(options.spill_threshold + c_max);
      ASSERT_LE(static_cast<double>(*largest), bound * (1 + 1e-12)) << "stream " << stream;
    }
    ASSERT_EQ(std::accumulate(placer.loads().begin(), placer.loads().end(), std::uint64_t{0}), total);
  }
}

TEST(StreamPlacer, PinnedDoesNotDependOnOrder) {
  PlacerOptions options;
  options.mode = PlacementMode::pinned;
  StreamPlacer forwards(named(5), options), backwards(named(5), options);
  std::map<std::string, int> where;
  for (int k = 0; k < 500; ++k) where[std::to_string(k)] = forwards.place(std::to_string(k), 1000)->device;
  for (int k = 500; k-- > 0;)
    ASSERT_EQ(backwards.place(std::to_string(k), 1)->device, where[std::to_string(k)]);
}

TEST(StreamPlacer, SpillsToTheLeastLoadedOrTheNextChoice) {
  PlacerOptions options;
  options.spill_threshold = 10;
  StreamPlacer modulo(named(4), options);
  const int home = modulo.content_device("k");
  EXPECT_EQ(modulo.place("k", 11)->device, home);
  const Placement spilled = *modulo.place("k", 5);
  EXPECT_TRUE(spilled.spilled);
  EXPECT_EQ(spilled.device, home == 0 ? 1 : 0) << "ties go to the smaller index";

  options.hash = ContentHash::rendezvous;
  StreamPlacer rendezvous(named(4), options);
  const std::vector<int> ranking = Rendezvous(named(4)).ranking("k");
  EXPECT_EQ(rendezvous.place("k", 11)->device, ranking[0]);
  EXPECT_EQ(rendezvous.place("k", 11)->device, ranking[1]);
  EXPECT_EQ(rendezvous.place("k", 11)->device, ranking[2]);
}

TEST(StreamPlacer, LoadsNeitherWrapNorGoBelowZero) {
  StreamPlacer placer(named(2));
  placer.seed(0, ~0ull - 5);
  expect_refused([&] { placer.seed(0, 6); }, "do not fit 64 bits");
  expect_refused([&] { placer.seed(2, 1); }, "no device 2; give 0 to 1");
  expect_refused([&] { placer.complete(-1, 1); }, "no device -1");
  EXPECT_EQ(placer.loads()[0], ~0ull - 5);
  placer.complete(0, ~0ull);
  EXPECT_EQ(placer.loads()[0], 0u);
}

TEST(StreamPlacer, TheLogReplays) {
  Draw draw(5);
  PlacerOptions options;
  options.spill_threshold = 20;
  options.keep_log = true;
  StreamPlacer placer(named(3), options);
  for (int i = 0; i < 2000; ++i) {
    const auto cost = static_cast<std::uint64_t>(draw.whole(0, 30));
    if (draw.chance(10))
      placer.seed(static_cast<int>(draw.whole(0, 2)), cost);
    else if (draw.chance(4))
      placer.complete(static_cast<int>(draw.whole(0, 2)), cost);
    else
      placer.place(std::to_string(draw.whole(1, 9)), cost);
  }
  StreamPlacer again(named(3), options);
  again.replay(placer.log());
  EXPECT_EQ(again.loads(), placer.loads());
  EXPECT_EQ(again.log(), placer.log());
  options.spill_threshold = 1;
  StreamPlacer other(named(3), options);
  expect_refused([&] { other.replay(placer.log()); }, "StreamPlacer::replay: event ");
  EXPECT_TRUE(StreamPlacer(named(3)).log().empty());
}

}  // namespace
}  // namespace shardwise
