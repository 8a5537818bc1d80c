// g++ 12 with the address sanitizer takes the empty optional inside a Pending for an uninitialised one.
#if defined(__SANITIZE_ADDRESS__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "shardwise/runtime/pending.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace shardwise {
namespace {

static_assert(!std::is_copy_constructible_v<Pending<int>> && !std::is_copy_assignable_v<Pending<int>>);

/// Collects what the error hook gets, and puts the default hook back.
struct Pendings : ::testing::Test {
  Pendings() {
    set_error_hook([this](const std::string& message) { reported.push_back(message); });
  }
  ~Pendings() override { set_error_hook({}); }
  std::vector<std::string> reported;
  int calls = 0;

  Pending<std::vector<int>> good() {
    return Pending<std::vector<int>>([this] {
      ++calls;
      return std::vector<int>{1, 2, 3};
    });
  }
  Pending<int> bad(const std::string& text = "boom") {
    return Pending<int>([this, text]() -> int {
      ++calls;
      throw Error(ErrorClass::device, text);
    });
  }
};

TEST_F(Pendings, WaitFinishesOnceAndKeepsTheResult) {
  auto pending = good();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(pending.wait().size(), 3u);
  pending.wait().push_back(4);
  EXPECT_EQ(pending.wait().size(), 4u);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(pending.get(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_THROW(pending.wait(), Error);
}

TEST_F(Pendings, GetWaitsAndHandsOver) {
  auto pending = good();
  EXPECT_EQ(pending.get(), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(calls, 1);
  try {
    pending.get();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
  }
}

TEST_F(Pendings, TheErrorComesOnceFromWait) {
  auto pending = bad();
  try {
    pending.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::device);
    EXPECT_STREQ(error.what(), "boom");
  }
  try {
    pending.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    EXPECT_NE(std::string(error.what()).find("already failed"), std::string::npos);
  }
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(reported.empty());
}

TEST_F(Pendings, MovedFromIsEmptyAndTheTargetFinishes) {
  auto first = good();
  auto second = std::move(first);
  EXPECT_THROW(first.wait(), Error);  // NOLINT: the moved-from state is a promise
  EXPECT_EQ(second.wait().size(), 3u);
  auto third = std::move(second);
  EXPECT_EQ(third.get().size(), 3u);
  EXPECT_EQ(calls, 1);
}

TEST_F(Pendings, AssignmentSettlesWhatWasThere) {
  {
    auto pending = bad("of the first");
    pending = bad("of the second");
    EXPECT_EQ(reported, (std::vector<std::string>{"of the first"}));
  }
  EXPECT_EQ(reported, (std::vector<std::string>{"of the first", "of the second"}));
  auto pending = good();
  Pending<std::vector<int>>& same = pending;
  pending = std::move(same);
  EXPECT_EQ(pending.wait().size(), 3u);
}

TEST_F(Pendings, DestroyedUnwaitedFinishesAndReports) {
  { auto pending = good(); }
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(reported.empty());
  { auto pending = bad(); }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(reported, (std::vector<std::string>{"boom"}));
  {
    Pending<int> odd([]() -> int { throw 42; });
  }
  EXPECT_EQ(reported.back(), "unknown error");
  { Pending<int> empty; }
  EXPECT_EQ(reported.size(), 2u);
}

TEST_F(Pendings, AHookThatThrowsIsToldOnStandardErrorWithTheMessage) {
  set_error_hook([](const std::string&) { throw std::runtime_error("hook"); });
  ::testing::internal::CaptureStderr();
  { auto pending = bad("lost words"); }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("the error hook threw"), std::string::npos) << text;
  EXPECT_NE(text.find("lost words"), std::string::npos) << text;
}

TEST_F(Pendings, TheDefaultHookPrintsOneLine) {
  set_error_hook({});
  ::testing::internal::CaptureStderr();
  { auto pending = bad("nobody waited"); }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "shardwise: error of a call that nobody waited for: nobody waited\n");
}

TEST_F(Pendings, AHookMaySetHooksAndDropFailingCalls) {
  set_error_hook([this](const std::string& message) {
    reported.push_back(message);
    set_error_hook([this](const std::string& inner) { reported.push_back("inner " + inner); });
    auto pending = bad("two");
  });
  { auto pending = bad("one"); }
  EXPECT_EQ(reported, (std::vector<std::string>{"one", "inner two"}));
}

TEST_F(Pendings, MoveOnlyResultsWork) {
  Pending<std::unique_ptr<int>> pending([] { return std::make_unique<int>(5); });
  EXPECT_EQ(*pending.get(), 5);
}

}  // namespace
}  // namespace shardwise
