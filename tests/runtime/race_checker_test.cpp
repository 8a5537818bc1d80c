// The race check against a brute-force oracle: the transitive closure of "happens before" over all
// operations.

#include "runtime/race_checker.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace shardwise {
namespace {

Access touch(ResourceId resource, AccessMode mode, std::uint64_t begin = 0, std::uint64_t length = 8) {
  Access a;
  a.resource = resource;
  a.begin = begin;
  a.length = length;
  a.mode = mode;
  return a;
}

std::string numbered(std::string word, std::size_t number) {
  return word.append(std::to_string(number));
}

Operation operation(std::string name, AccessList accesses) {
  Operation result;
  result.name = std::move(name);
  result.accesses = accesses;
  return result;
}

Operation release(ResourceId resource) {
  Operation result = operation("release", {touch(resource, AccessMode::write, 0, 1000)});
  result.kind = OperationKind::release;
  return result;
}

constexpr AccessMode reads = AccessMode::read, writes = AccessMode::write,
                     accumulates = AccessMode::accumulate;

/// Two or three streams and the check.
struct Checker : ::testing::Test {
  RaceChecker check;
  std::size_t a = check.add_stream("a"), b = check.add_stream("b"), c = check.add_stream("c");
};

TEST_F(Checker, SameStreamIsOrdered) {
  check.on_operation(a, operation("w1", {touch(1, writes)}));
  check.on_operation(a, operation("w2", {touch(1, writes)}));
  EXPECT_TRUE(check.races().empty());
}

TEST_F(Checker, UnorderedStreamsRaceAndBothAreNamed) {
  check.on_operation(a, operation("fill", {touch(1, writes)}));
  check.on_operation(b, operation("use", {touch(1, reads)}));
  ASSERT_EQ(check.races().size(), 1u);
  EXPECT_EQ(check.races()[0].first, "fill on a");
  EXPECT_EQ(check.races()[0].second, "use on b");
  EXPECT_EQ(check.races()[0].resource, 1u);
  EXPECT_NE(check.races()[0].text().find("'fill on a' and 'use on b'"), std::string::npos);
  check.clear_races();
  EXPECT_TRUE(check.races().empty());
}

TEST_F(Checker, AnEventOrders) {
  check.on_operation(a, operation("fill", {touch(1, writes)}));
  check.on_wait(b, check.on_record(a));
  check.on_operation(b, operation("use", {touch(1, reads)}));
  EXPECT_TRUE(check.races().empty());
}

TEST_F(Checker, AnEventRecordedTooEarlyDoesNotOrder) {
  const VectorClock early = check.on_record(a);
  check.on_operation(a, operation("fill", {touch(1, writes)}));
  check.on_wait(b, early);
  check.on_operation(b, operation("use", {touch(1, reads)}));
  EXPECT_EQ(check.races().size(), 1u);
}

TEST_F(Checker, OrderPassesThroughAStreamThatTouchesNothing) {
  check.on_operation(a, operation("fill", {touch(1, writes)}));
  check.on_wait(b, check.on_record(a));
  check.on_wait(c, check.on_record(b));
  check.on_operation(c, operation("use", {touch(1, reads)}));
  EXPECT_TRUE(check.races().empty());
}

TEST_F(Checker, AccumulationsCommuteOnlyWithEachOther) {
  check.on_operation(a, operation("add a", {touch(1, accumulates)}));
  check.on_operation(b, operation("add b", {touch(1, accumulates)}));
  EXPECT_TRUE(check.races().empty());
  check.on_operation(c, operation("read", {touch(1, reads)}));
  EXPECT_EQ(check.races().size(), 2u);
}

TEST_F(Checker, DisjointRangesDoNotRace) {
  check.on_operation(a, operation("low", {touch(1, writes, 0, 8)}));
  check.on_operation(b, operation("high", {touch(1, writes, 8, 8)}));
  EXPECT_TRUE(check.races().empty());
  check.on_operation(c, operation("across", {touch(1, writes, 7, 2)}));
  EXPECT_EQ(check.races().size(), 2u);
}

TEST_F(Checker, AHostWaitOrdersAllThatIsEnqueuedLater) {
  check.on_operation(a, operation("fill", {touch(1, writes)}));
  check.on_host_wait(check.on_record(a));
  check.on_operation(b, operation("use", {touch(1, reads)}));
  check.on_operation(c, operation("use too", {touch(1, reads)}));
  EXPECT_TRUE(check.races().empty());
}

TEST_F(Checker, ReleaseWhileInUseIsARace) {
  check.on_operation(a, operation("use", {touch(1, reads)}));
  check.on_operation(b, release(1));
  ASSERT_EQ(check.races().size(), 1u);
  EXPECT_EQ(check.races()[0].second, "release on b");
}

TEST_F(Checker, UseAfterReleaseIsARaceAlsoWhereItIsOrdered) {
  check.on_operation(a, operation("fill", {touch(1, writes)}));
  check.on_operation(a, release(1));
  EXPECT_TRUE(check.races().empty());
  check.on_operation(a, operation("late", {touch(1, reads)}));
  ASSERT_EQ(check.races().size(), 1u);
  EXPECT_EQ(check.races()[0].first, "release on a");
  EXPECT_EQ(check.races()[0].second, "late on a");
}

TEST_F(Checker, OneRaceIsReportedOnce) {
  check.on_operation(a, operation("fill", {touch(1, writes, 0, 4), touch(1, writes, 4, 4)}));
  check.on_operation(b, operation("use", {touch(1, reads, 0, 8)}));
  EXPECT_EQ(check.races().size(), 1u);
}

/// Remembers everything and compares all pairs.
class Oracle {
 public:
  explicit Oracle(std::size_t streams) : stream_knows_(streams) {}
  using Knows = std::set<std::size_t>;  // operations that are over

  /// The names of earlier operations that race with this one.
  std::set<std::string> enqueue(std::size_t stream, const Operation& op) {
    Knows& known = stream_knows_[stream];
    known.insert(host_knows_.begin(), host_knows_.end());
    std::set<std::string> racing;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      bool conflict = false;
      for (const Access& x : all_[i].accesses)
        for (const Access& y : op.accesses) {
          conflict = conflict || (conflicts(x, y) && !known.contains(i));
          conflict = conflict || (all_[i].kind == OperationKind::release && x.resource == y.resource);
        }
      if (conflict) racing.insert(all_[i].name);
    }
    known.insert(all_.size());
    all_.push_back(op);
    return racing;
  }
  Knows record(std::size_t stream) const {
    Knows knows = stream_knows_[stream];
    knows.insert(host_knows_.begin(), host_knows_.end());
    return knows;
  }
  void wait(std::size_t stream, const Knows& event) {
    stream_knows_[stream].insert(event.begin(), event.end());
  }
  void host_wait(const Knows& event) { host_knows_.insert(event.begin(), event.end()); }

 private:
  std::vector<Operation> all_;
  std::vector<Knows> stream_knows_;
  Knows host_knows_;
};

TEST(RaceCheckerProperty, RandomProgramsAgreeWithTheOracle) {
  int racy = 0, clean = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    const std::size_t streams = 2 + below(3);
    RaceChecker check;
    for (std::size_t s = 0; s < streams; ++s) check.add_stream(numbered("s", s));
    Oracle oracle(streams);
    std::vector<std::pair<VectorClock, Oracle::Knows>> events;
    const bool many_events = below(2) == 0;
    for (int step = 0; step < 80; ++step) {
      const std::size_t s = below(streams);
      const std::uint64_t what = below(many_events ? 14 : 9);
      if (what < 5) {
        AccessList accesses;
        const std::uint64_t count = 1 + below(3);
        for (std::uint64_t i = 0; i < count; ++i)
          // Whole-resource accesses are frequent, so that the check prunes.
          accesses.add(
              touch(1 + below(3), AccessMode(below(3)), below(2) * below(30), below(2) ? 40 : 1 + below(6)));
        Operation op = operation(numbered("op", static_cast<std::size_t>(step)), accesses);
        if (below(40) == 0) {
          op.kind = OperationKind::release;
          op.accesses = {touch(1 + below(3), writes, 0, 100)};
        }
        check.clear_races();
        check.on_operation(s, op);
        const std::set<std::string> expected = oracle.enqueue(s, op);
        // The verdict is the same; where accesses were pruned, a later culprit stands for the earlier ones.
        ASSERT_EQ(check.races().empty(), expected.empty()) << "seed " << seed << " step " << step;
        for (const Race& race : check.races()) {
          const std::string first = race.first.substr(0, race.first.find(" on "));
          ASSERT_TRUE(expected.contains(first)) << "seed " << seed << " step " << step << ": " << race.text();
        }
        (expected.empty() ? clean : racy) += 1;
      } else if (what == 5) {
        check.on_host_wait(check.on_record(s));
        oracle.host_wait(oracle.record(s));
      } else if (what % 2 == 0 || events.empty()) {
        events.emplace_back(check.on_record(s), oracle.record(s));
      } else {
        const auto& [clock, knows] =
            events[events.size() - 1 - below(std::min<std::size_t>(events.size(), 4))];
        check.on_wait(s, clock);
        oracle.wait(s, knows);
      }
    }
  }
  std::printf("%d operations raced, %d did not\n", racy, clean);
  EXPECT_GT(racy, 1000);
  EXPECT_GT(clean, 1000);
}

}  // namespace
}  // namespace shardwise
