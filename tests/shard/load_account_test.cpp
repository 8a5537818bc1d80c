#include "shardwise/shard/load_account.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <utility>

#include "shard/random.hpp"

namespace shardwise {
namespace {

TEST(LoadAccount, TokensReleaseWhatTheyPromised) {
  LoadAccount account(std::vector<std::uint64_t>{100, 10});
  {
    LoadAccount::Token a = account.reserve(0, 60);
    EXPECT_EQ(account.load(0), 60u);
    EXPECT_FALSE(account.try_reserve(0, 41));
    EXPECT_TRUE(account.try_reserve(0, 40)) << "and gone again at once";
    LoadAccount::Token b = std::move(a);
    EXPECT_EQ(a.device(), -1);  // NOLINT: moved from is empty
    EXPECT_EQ(account.load(0), 60u);
    b = account.reserve(1, 10);
    EXPECT_EQ(account.loads(), (std::vector<std::uint64_t>{0, 10}));
    try {
      account.reserve(1, 1);
      ADD_FAILURE() << "over the capacity";
    } catch (const std::invalid_argument& error) {
      EXPECT_STREQ(error.what(), "LoadAccount::reserve: 1 more on device 1, which has 10 of at most 10");
    }
    try {
      throw std::runtime_error("a job");
    } catch (const std::runtime_error&) {
    }
  }
  EXPECT_EQ(account.loads(), (std::vector<std::uint64_t>{0, 0}));
  EXPECT_THROW(account.reserve(2, 1), std::invalid_argument);
  EXPECT_THROW(LoadAccount(0), std::invalid_argument);
}

TEST(LoadAccount, TokensOutliveTheAccount) {
  LoadAccount::Token token;
  {
    LoadAccount account(1);
    token = account.reserve(0, ~0ull);
    EXPECT_FALSE(account.try_reserve(0, 1)) << "64 bits are a limit, too";
  }
  token.release();
  EXPECT_EQ(token.amount(), 0u);
}

TEST(LoadAccount, ManyThreadsConserveIt) {
  LoadAccount account(std::vector<std::uint64_t>{1000, 1000, 1000});
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&account, t] {
      test::Draw draw(t);
      std::vector<LoadAccount::Token> held;
      for (int i = 0; i < 20000; ++i) {
        if (auto token = account.try_reserve(static_cast<int>(draw.whole(0, 2)),
                                             static_cast<std::uint64_t>(draw.whole(0, 300))))
          held.push_back(std::move(*token));
        if (held.size() > 3) held.erase(held.begin() + draw.whole(0, 3));
        for (int d = 0; d < 3; ++d) ASSERT_LE(account.load(d), 1000u);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.loads(), (std::vector<std::uint64_t>{0, 0, 0}));
}

}  // namespace
}  // namespace shardwise
