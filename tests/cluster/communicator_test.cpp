// What every communicator does, on any number of ranks: this program runs on one process by itself and under
// mpirun.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "cluster/rank_fixture.hpp"

namespace shardwise::testing {
namespace {

/// What rank r would give: every rank can work out the answer by itself.
std::vector<std::int64_t> integers_of(int rank, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed * 1000 + static_cast<std::uint64_t>(rank));
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(random());
  return values;
}
std::vector<double> doubles_of(int rank, std::size_t count) {
  std::mt19937_64 random(77 + static_cast<std::uint64_t>(rank));
  std::vector<double> values(count);
  for (double& value : values)
    value = std::ldexp(static_cast<double>(random()) - 9e18, static_cast<int>(random() % 40));
  return values;
}

TEST(Communicator, KnowsItsRanks) {
  Communicator& all = ranks();
  EXPECT_GE(all.size(), 1);
  EXPECT_GE(all.rank(), 0);
  EXPECT_LT(all.rank(), all.size());
  EXPECT_LT(all.local_rank(), all.local_size());
  EXPECT_FALSE(all.name().empty());
  for (int r = 0; r < all.size(); ++r) EXPECT_FALSE(all.host(r).empty());
  std::vector<std::int64_t> seen(static_cast<std::size_t>(all.size()));
  seen[static_cast<std::size_t>(all.rank())] = 1;
  all.sum(seen, "who is there");
  EXPECT_EQ(std::ranges::count(seen, 1), all.size());
}

TEST(Communicator, SumsIntegersModulo2To64) {
  for (const std::size_t count : {0u, 1u, 8u, 9u, 1000u, 300'001u}) {
    std::vector<std::int64_t> values = integers_of(ranks().rank(), count, count);
    std::vector<std::int64_t> to_last = values, least = values, most = values;
    std::vector<std::int64_t> sum(count), low = integers_of(0, count, count), high = low;
    for (int r = 0; r < ranks().size(); ++r) {
      const std::vector<std::int64_t> other = integers_of(r, count, count);
      for (std::size_t i = 0; i < count; ++i) {
        sum[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[i]) +
                                           static_cast<std::uint64_t>(other[i]));
        low[i] = std::min(low[i], other[i]);
        high[i] = std::max(high[i], other[i]);
      }
    }
    const std::vector<std::int64_t> mine = values;
    ranks().sum(values, "sum");
    ranks().min(least, "min");
    ranks().max(most, "max");
    const int last = ranks().size() - 1;
    ranks().sum_to(last, to_last, "sum to the last");
    EXPECT_EQ(values, sum) << count;
    EXPECT_EQ(least, low) << count;
    EXPECT_EQ(most, high) << count;
    EXPECT_EQ(to_last, ranks().rank() == last ? sum : mine) << count;
  }
}

TEST(Communicator, SumsDoublesInRankOrder) {
  for (const std::size_t count : {1u, 8u, 9u, 5000u}) {
    std::vector<double> values = doubles_of(ranks().rank(), count), low = values, high = values;
    std::vector<double> sum = doubles_of(0, count), least = sum, most = sum;
    for (int r = 1; r < ranks().size(); ++r) {
      const std::vector<double> other = doubles_of(r, count);
      for (std::size_t i = 0; i < count; ++i) {
        sum[i] += other[i];
        least[i] = std::min(least[i], other[i]);
        most[i] = std::max(most[i], other[i]);
      }
    }
    ranks().sum(values, "sum");
    ranks().min(low, "min");
    ranks().max(high, "max");
    EXPECT_EQ(std::memcmp(values.data(), sum.data(), count * sizeof(double)), 0);
    EXPECT_EQ(low, least);
    EXPECT_EQ(high, most);
  }
}

TEST(Communicator, BroadcastsFromEveryRoot) {
  for (int root = 0; root < ranks().size(); ++root) {
    for (const std::size_t size : {0u, 1u, 64u, 65u, 3'000'001u}) {
      const std::string wanted(size, static_cast<char>('a' + root));
      std::string text = ranks().rank() == root ? wanted : "something else";
      ranks().broadcast(text, root, "text");
      EXPECT_EQ(text, wanted);
      std::vector<std::byte> bytes = ranks().rank() == root ? bytes_of(wanted) : bytes_of("other");
      ranks().broadcast(bytes, root, "bytes");
      EXPECT_EQ(text_of(bytes), wanted);
    }
    double value = ranks().rank() == root ? 0.1 : 7;
    ranks().broadcast_value(value, root, "value");
    EXPECT_EQ(value, 0.1);
  }
}

TEST(Communicator, GathersPiecesOfAnySize) {
  const auto piece = [](int rank, std::size_t unit) {
    return std::string(unit * static_cast<std::size_t>(rank), static_cast<char>('A' + rank));
  };
  for (const std::size_t unit : {0u, 3u, 70u, 500'000u}) {
    const std::string mine = piece(ranks().rank(), unit);
    for (int root = 0; root < ranks().size(); ++root) {
      const std::vector<std::string> all = ranks().gather_text(mine, root, "pieces");
      if (ranks().rank() != root) {
        EXPECT_TRUE(all.empty());
        continue;
      }
      ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks().size()));
      for (int r = 0; r < ranks().size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], piece(r, unit));
    }
    const auto everywhere = ranks().gather_all(bytes_of(mine), "pieces to all");
    ASSERT_EQ(everywhere.size(), static_cast<std::size_t>(ranks().size()));
    for (int r = 0; r < ranks().size(); ++r)
      EXPECT_EQ(text_of(everywhere[static_cast<std::size_t>(r)]), piece(r, unit));
  }
}

TEST(Communicator, ExchangesPieces) {
  const auto piece = [](int from, int to) {
    return std::string(static_cast<std::size_t>(from * 1000 + to), static_cast<char>('a' + from * 4 + to));
  };
  std::vector<std::vector<std::byte>> outgoing;
  for (int r = 0; r < ranks().size(); ++r) outgoing.push_back(bytes_of(piece(ranks().rank(), r)));
  const auto incoming = ranks().exchange(outgoing, "pieces");
  ASSERT_EQ(incoming.size(), outgoing.size());
  for (int r = 0; r < ranks().size(); ++r)
    EXPECT_EQ(text_of(incoming[static_cast<std::size_t>(r)]), piece(r, ranks().rank()));
}

TEST(Communicator, Agrees) {
  EXPECT_TRUE(ranks().agree(true, "yes"));
  EXPECT_FALSE(ranks().agree(ranks().rank() != ranks().size() - 1, "all but the last"));
  EXPECT_FALSE(ranks().agree(false, "no"));
}

TEST(Communicator, MovesMessagesRoundTheRing) {
  const int next = (ranks().rank() + 1) % ranks().size(),
            previous = (ranks().rank() + ranks().size() - 1) % ranks().size();
  for (const std::size_t size : {0u, 1u, 5000u, 2'000'000u}) {
    std::vector<std::byte> out(size, static_cast<std::byte>(ranks().rank() + 1)), in(size);
    std::vector<std::byte> out2(size / 2, std::byte{0x55}), in2(size / 2);
    // Two tags, received in the other order.
    const auto sent = ranks().send(out, next, 3, "ring");
    const auto sent2 = ranks().send(out2, next, 4, "ring, second");
    const auto received2 = ranks().receive(in2, previous, 4, "ring, second");
    const auto received = ranks().receive(in, previous, 3, "ring");
    received2->wait();
    received->wait();
    sent->wait();
    sent2->wait();
    EXPECT_TRUE(received->test());
    EXPECT_EQ(std::ranges::count(in, static_cast<std::byte>(previous + 1)),
              static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(in2, out2);
  }
}

TEST(Communicator, MessagesOfOtherThreadsPassCollectives) {
  const int next = (ranks().rank() + 1) % ranks().size(),
            previous = (ranks().rank() + ranks().size() - 1) % ranks().size();
  std::vector<std::int64_t> got(200);
  std::thread other([&] {
    for (std::int64_t i = 0; i < 200; ++i) {
      const std::int64_t value = ranks().rank() * 1000 + i;
      const auto sent = ranks().send(std::as_bytes(std::span(&value, 1)), next, 9, "thread");
      ranks()
          .receive(std::as_writable_bytes(std::span(&got[static_cast<std::size_t>(i)], 1)), previous, 9,
                   "thread")
          ->wait();
      sent->wait();
    }
  });
  for (int i = 0; i < 200; ++i) {
    std::int64_t one = 1;
    ranks().sum(std::span(&one, 1), "count");
    ASSERT_EQ(one, ranks().size());
  }
  other.join();
  for (std::int64_t i = 0; i < 200; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], previous * 1000 + i);
}

TEST(Communicator, RefusesWhatMakesNoSense) {
  std::byte one{};
  EXPECT_THROW(ranks().broadcast(std::span(&one, 1), ranks().size(), "x"), Error);
  EXPECT_THROW(ranks().broadcast(std::span(&one, 1), -1, "x"), Error);
  EXPECT_THROW(ranks().send(std::span(&one, 1), ranks().size(), 0, "x"), Error);
  EXPECT_THROW(ranks().receive(std::span(&one, 1), -1, 0, "x"), Error);
  EXPECT_THROW(ranks().send(std::span(&one, 1), 0, -1, "x"), Error);
  EXPECT_THROW(ranks().send(std::span(&one, 1), 0, 32768, "x"), Error);
  EXPECT_THROW(ranks().exchange(
                   std::vector<std::vector<std::byte>>(static_cast<std::size_t>(ranks().size() + 1)), "x"),
               Error);
  ranks().barrier("all the same");
}

TEST(Communicator, DuplicatesAreApart) {
  std::shared_ptr<Communicator> first = ranks().duplicate("first"), second = ranks().duplicate("second");
  ASSERT_EQ(first->rank(), ranks().rank());
  ASSERT_EQ(first->size(), ranks().size());
  const int next = (ranks().rank() + 1) % ranks().size(),
            previous = (ranks().rank() + ranks().size() - 1) % ranks().size();
  std::int64_t out1 = 1, out2 = 2, in1 = 0, in2 = 0;
  const auto bytes = [](std::int64_t& value) { return std::as_writable_bytes(std::span(&value, 1)); };
  // The same tag in both, received crosswise.
  const auto s1 = first->send(bytes(out1), next, 0, "1"), s2 = second->send(bytes(out2), next, 0, "2");
  second->receive(bytes(in2), previous, 0, "2")->wait();
  first->receive(bytes(in1), previous, 0, "1")->wait();
  EXPECT_EQ(in1, 1);
  EXPECT_EQ(in2, 2);
  std::int64_t sum = 1;
  second->sum(std::span(&sum, 1), "in the second");
  EXPECT_EQ(sum, ranks().size());
}

TEST(Communicator, AFaultOnOneRankIsThrownByAll) {
  for (int bad = 0; bad < ranks().size(); ++bad) {
    // The others wait in collectives of all kinds; the bad rank does not come.
    for (int kind = 0; kind < 4; ++kind) {
      const RankError error = agreed_error([&] {
        ranks().barrier("before");
        if (ranks().rank() == bad) throw_data("the file 'x.ply' is cut short (10 bytes); copy it again");
        std::int64_t one = 1;
        std::string text = "text";
        if (kind == 0) ranks().barrier("wait");
        if (kind == 1) ranks().sum(std::span(&one, 1), "wait");
        if (kind == 2) ranks().broadcast(text, (bad + 1) % ranks().size(), "wait");
        if (kind == 3) ranks().gather_text(text, bad, "wait");
      });
      EXPECT_EQ(error.error_class(), ErrorClass::data);
      EXPECT_EQ(error.exit_code(), 3);
      EXPECT_EQ(error.rank(), bad);
      const std::string prefix = ranks().size() > 1 ? "rank " + std::to_string(bad) + ": " : "";
      EXPECT_EQ(error.what(), prefix + "the file 'x.ply' is cut short (10 bytes); copy it again");
    }
  }
  std::int64_t one = 1;
  ranks().sum(std::span(&one, 1), "in step again");
  EXPECT_EQ(one, ranks().size());
}

TEST(Communicator, TheSameFaultOnAllRanksNamesNone) {
  const RankError error = agreed_error([] { throw_usage("--cell must be above 0 (found '0')"); });
  EXPECT_STREQ(error.what(), "--cell must be above 0 (found '0')");
  EXPECT_EQ(error.exit_code(), 2);
}

TEST(Communicator, TheLowestCauseWins) {
  if (ranks().size() < 3) GTEST_SKIP() << "needs 3 ranks, " << ranks().size() << " run";
  const RankError error = agreed_error([] {
    if (ranks().rank() == 0) throw DependencyError("given up because of another");
    if (ranks().rank() == 1) throw Error(ErrorClass::memory, "no memory");
    throw Error(ErrorClass::budget, "too much");
  });
  EXPECT_STREQ(error.what(), "rank 1: no memory");
  EXPECT_EQ(error.error_class(), ErrorClass::memory);
  EXPECT_EQ(error.rank(), 1);
}

TEST(Communicator, AnAgreedErrorIsNotAgreedAgain) {
  const RankError error = agreed_error([] {
    const RankError inner = agreed_error([] {
      if (ranks().rank() == 0) throw Error(ErrorClass::io, "disk full");
    });
    throw RankError(inner);
  });
  EXPECT_EQ(error.error_class(), ErrorClass::io);
  ranks().barrier("in step");
}

TEST(Communicator, AFaultIsHeardInMessagesAndDuplicates) {
  if (ranks().size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const int bad = ranks().size() - 1;
  const RankError in_message = agreed_error([&] {
    if (ranks().rank() == bad) throw Error(ErrorClass::device, "the launch failed");
    std::byte nothing{};
    ranks().receive(std::span(&nothing, 1), bad, 100, "never sent")->wait();
  });
  EXPECT_EQ(in_message.what(), "rank " + std::to_string(bad) + ": the launch failed");
  std::shared_ptr<Communicator> copy = ranks().duplicate("copy");
  const RankError in_duplicate = agreed_error([&] {
    if (ranks().rank() == bad) throw Error(ErrorClass::device, "the copy failed");
    copy->barrier("not reached by all");
  });
  EXPECT_EQ(in_duplicate.what(), "rank " + std::to_string(bad) + ": the copy failed");
  ranks().barrier("in step");
}

TEST(Communicator, WhatWasSentBeforeAFailureIsForNobodyAfterIt) {
  const int next = (ranks().rank() + 1) % ranks().size(),
            previous = (ranks().rank() + ranks().size() - 1) % ranks().size();
  std::vector<std::byte> out(100, std::byte{1}), in(100);
  for (int again = 0; again < 3; ++again) {
    std::ranges::fill(out, std::byte{1});
    const auto sent = ranks().send(out, next, 6, "before");
    (void)agreed_error([&] {
      if (ranks().rank() == 0) throw Error(ErrorClass::io, "disk full");
    });
    std::ranges::fill(out, std::byte{2});
    const auto sent_again = ranks().send(out, next, 6, "after");
    ranks().receive(in, previous, 6, "after")->wait();
    sent_again->wait();
    EXPECT_EQ(std::ranges::count(in, std::byte{2}), 100);
    ranks().barrier("all have theirs");
  }
}

TEST(Communicator, AnExceptionCallsOffWhatIsReceived) {
  if (ranks().size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const auto start = std::chrono::steady_clock::now();
  for (const std::size_t size : {100u, 3'000'000u}) {
    std::vector<std::byte> out(size, std::byte{1}), later(size, std::byte{2}), in(size);
    const RankError error = agreed_error([&] {
      if (ranks().rank() != 1) return;
      std::vector<std::byte> gone(size);
      const auto message = ranks().receive(gone, 0, 8, "called off");
      throw_data("between a message's beginning and its end");  // its memory goes
    });
    EXPECT_EQ(error.rank(), 1);
    if (ranks().rank() == 0) ranks().send(later, 1, 8, "later")->wait();
    if (ranks().rank() == 1) {
      ranks().receive(in, 0, 8, "later")->wait();
      EXPECT_EQ(in, later);
    }
    ranks().barrier("in step");
  }
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
}

/// More than there is memory for: the root cannot take it, and nothing has been moved when all throw.
TEST(Communicator, NoMemoryForWhatIsGatheredIsThrownByAll) {
  if (ranks().size() < 2) GTEST_SKIP() << "needs 2 ranks";
  std::byte one{};
  for (const bool everywhere : {false, true}) {
    const RankError error = agreed_error([&] {
      // Never read: whoever would receive it has to refuse.
      const std::span<const std::byte> mine(&one,
                                            ranks().rank() == 1 ? std::size_t{1} << 61 : std::size_t{100});
      everywhere ? ranks().gather_all(mine, "too much") : ranks().gather(mine, 0, "too much");
    });
    EXPECT_EQ(error.error_class(), ErrorClass::memory) << error.what();
    EXPECT_EQ(error.rank(), everywhere ? error.rank() : 0);
    EXPECT_NE(std::string(error.what()).find("'too much': no memory"), std::string::npos) << error.what();
    std::int64_t value = 1;
    ranks().sum(std::span(&value, 1), "usable");
    EXPECT_EQ(value, ranks().size());
  }
}

TEST(Communicator, AWrongOrderIsNamedByAllRanks) {
  if (ranks().size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const auto wrong = [](auto&& mine, auto&& others) {
    try {
      ranks().rank() == 1 ? mine() : others();
    } catch (const RankError& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::internal);
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  std::int64_t value = 1;
  std::vector<std::int64_t> longer(100);
  const std::string kinds =
      wrong([&] { ranks().sum(std::span(&value, 1), "total"); }, [] { ranks().barrier("end"); });
  EXPECT_NE(kinds.find("rank 0 in barrier 'end'"), std::string::npos) << kinds;
  EXPECT_NE(kinds.find("rank 1 in reduce 'total'"), std::string::npos) << kinds;
  const std::string names = wrong([] { ranks().barrier("b"); }, [] { ranks().barrier("a"); });
  EXPECT_NE(names.find("barrier 'a'"), std::string::npos) << names;
  const std::string sizes =
      wrong([&] { ranks().sum(longer, "s"); }, [&] { ranks().sum(std::span(&value, 1), "s"); });
  EXPECT_NE(sizes.find("800 bytes"), std::string::npos) << sizes;
  ranks().barrier("in step");
}

TEST(Communicator, AMessageOfAnotherSizeIsAnError) {
  if (ranks().size() < 2) GTEST_SKIP() << "needs 2 ranks";
  std::vector<std::byte> bytes(100);
  for (const std::size_t sent : {50u, 90u}) {
    if (ranks().rank() == 0) ranks().send(std::span(bytes).first(sent), 1, 5, "sized")->wait();
    if (ranks().rank() == 1) {
      const auto message = ranks().receive(std::span(bytes).first(70), 0, 5, "sized");
      EXPECT_THROW(message->wait(), Error) << sent;
    }
    ranks().barrier("sized");
  }
}

TEST(Communicator, CountsTraffic) {
  const std::shared_ptr<Communicator> own = ranks().duplicate("traffic");
  std::vector<std::int64_t> values(1000);
  own->sum(values, "grid");
  own->sum(values, "grid");
  std::string text(500, 'x');
  own->broadcast(text, 0, "scene");
  const std::vector<RankTraffic> traffic = own->traffic();
  const auto find = [&](const std::string& what) {
    const auto entry = std::ranges::find(traffic, what, &RankTraffic::what);
    return entry == traffic.end() ? RankTraffic{} : *entry;
  };
  if (own->size() == 1) {
    EXPECT_EQ(find("grid").bytes_out, 0u);
    return;
  }
  EXPECT_EQ(find("grid").calls, 2);
  EXPECT_EQ(find("grid").bytes_out, 16000u);
  EXPECT_EQ(find("grid").bytes_in, 16000u);
  EXPECT_GE(find("scene").bytes_out + find("scene").bytes_in, 500u);
  EXPECT_LE(find("scene").bytes_out + find("scene").bytes_in, 508u);
}

}  // namespace
}  // namespace shardwise::testing
