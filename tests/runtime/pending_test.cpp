// g++ 12 with the address sanitizer takes the empty optional inside a Pending for an uninitialised one.
#if defined(__SANITIZE_ADDRESS__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "shardwise/runtime/pending.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "shardwise/runtime/devices.hpp"

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

/// A host stream that hangs in its first operation until let go.
struct Hanging {
  Hanging() {
    Operation hang;
    hang.name = "hang";
    hang.body = [this](LaunchContext&) { gone.wait(false); };
    stream->enqueue(std::move(hang));
    event = stream->record();
  }
  ~Hanging() { let_go(); }
  void let_go() {
    gone = true;
    gone.notify_all();
  }
  std::atomic<bool> gone{false};
  DeviceSet devices = open_devices("host:1");
  std::unique_ptr<Stream> stream = devices[0].create_stream("compute");
  Event event;
};

TEST_F(Pendings, AHangPastTheDeadlineIsReportedAndWhatTheCallHoldsIsKept) {
  const std::size_t before = abandoned_calls();
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> watch = held;
  bool finished = false;
  {
    Hanging hanging;
    {
      Pending<int> pending(
          [held = std::move(held), &finished] {
            finished = true;
            return *held;
          },
          "coverage", {{"host:0/compute", hanging.event}, {"host:0/out", hanging.event}});
      pending.set_deadline(0.05);
      const auto begin = std::chrono::steady_clock::now();
      pending = {};
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      EXPECT_GE(seconds, 0.05);
      EXPECT_LT(seconds, 10);
    }
    ASSERT_EQ(reported.size(), 1u);
    for (const char* part : {"coverage", "0.05 s", "host:0/compute", "'hang'", "1 more point", "kept"})
      EXPECT_NE(reported[0].find(part), std::string::npos) << "'" << part << "' is not in: " << reported[0];
    EXPECT_EQ(abandoned_calls(), before + 1);
    EXPECT_FALSE(watch.expired());
  }
  // Also once the work has ended after all: nobody knows any more who still uses it.
  EXPECT_FALSE(watch.expired());
  EXPECT_FALSE(finished);
}

TEST_F(Pendings, WorkThatEndsWithinTheDeadlineIsFinishedAndFreed) {
  const std::size_t before = abandoned_calls();
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> watch = held;
  bool finished = false;
  Hanging hanging;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    hanging.let_go();
  });
  {
    Pending<int> pending(
        [held = std::move(held), &finished] {
          finished = true;
          return *held;
        },
        "call", {{"host:0/compute", hanging.event}, {"nowhere", Event()}});
    pending.set_deadline(60);
  }
  EXPECT_TRUE(finished);
  EXPECT_TRUE(watch.expired());
  EXPECT_TRUE(reported.empty());
  EXPECT_EQ(abandoned_calls(), before);
  later.join();
}

TEST_F(Pendings, TheErrorOfACallThatEndsInTimeIsReportedAsItsOwn) {
  Hanging hanging;
  hanging.let_go();
  {
    Pending<int> pending([]() -> int { throw Error(ErrorClass::device, "boom"); }, "call",
                         {{"host:0/compute", hanging.event}});
  }
  EXPECT_EQ(reported, (std::vector<std::string>{"boom"}));
}

TEST_F(Pendings, TheDefaultDeadlineIsGenerousSettableAndChecked) {
  EXPECT_EQ(unwaited_deadline(), 600);
  Hanging hanging;
  set_unwaited_deadline(0);
  {
    Pending<int> pending([] { return 1; }, "quick", {{"host:0/compute", hanging.event}});
  }
  set_unwaited_deadline(600);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_NE(reported[0].find("quick: dropped unwaited and not over 0 s later"), std::string::npos)
      << reported[0];
  Pending<int> pending([] { return 1; });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {-1.0, nan, -std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(set_unwaited_deadline(bad), Error);
    EXPECT_THROW(pending.set_deadline(bad), Error);
  }
  EXPECT_EQ(unwaited_deadline(), 600);
  pending.set_deadline(std::numeric_limits<double>::infinity());
  EXPECT_EQ(pending.get(), 1);
  pending.set_deadline(1);  // nothing is pending: no effect
}

TEST_F(Pendings, OnSimNothingHangsAndTheWorldIsRun) {
  const DeviceSet devices = open_devices("sim:1");
  const auto stream = devices[0].create_stream("s");
  bool ran = false;
  Operation work;
  work.body = [&](LaunchContext&) { ran = true; };
  stream->enqueue(std::move(work));
  {
    Pending<int> pending([] { return 1; }, "call", {{"sim:0/s", stream->record()}});
    pending.set_deadline(0.001);
  }
  EXPECT_TRUE(ran);
  EXPECT_TRUE(reported.empty());
}

TEST_F(Pendings, MoveOnlyResultsWork) {
  Pending<std::unique_ptr<int>> pending([] { return std::make_unique<int>(5); });
  EXPECT_EQ(*pending.get(), 5);
}

}  // namespace
}  // namespace shardwise
