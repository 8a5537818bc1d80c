// The guard of sim: memory that an operation has not declared cannot be touched unnoticed.

#include <gtest/gtest.h>

#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

DeviceSet guarded(const std::string& spec = "sim:2") {
  OpenOptions options;
  options.sim_guard = true;
  return open_devices(spec, options);
}

Operation touch(const std::string& name, AccessList accesses, std::function<void()> body) {
  Operation operation;
  operation.name = name;
  operation.accesses = accesses;
  operation.body = [body = std::move(body)](LaunchContext&) { body(); };
  return operation;
}

std::string met_by(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::internal);
    return error.what();
  }
  return "";
}

#if defined(__linux__)

TEST(SimGuard, WhatIsDeclaredIsOpen) {
  const DeviceSet devices = guarded();
  const auto stream = devices[0].create_stream("s");
  const Buffer<int> a(*stream, 100, "a"), b(*stream, 100, "b"), c(*stream, 1, "c");
  a.data()[5] = 42;  // the host may, between operations
  stream->enqueue(touch("work", {a.reads(), b.writes(), c.accumulates()}, [&] {
    b.data()[99] = a.data()[5];
    c.data()[0] += 1;
  }));
  stream->enqueue(copy_operation("copy", a, b));
  EXPECT_EQ(met_by(*stream), "");
  EXPECT_EQ(a.data()[99], 42);
  EXPECT_EQ(c.data()[0], 1);
}

TEST(SimGuard, AnUndeclaredTouchIsAnErrorThatNamesBoth) {
  const DeviceSet devices = guarded();
  const auto stream = devices[1].create_stream("compute");
  const Buffer<int> a(*stream, 4000, "first"), b(*stream, 100, "second");
  int seen = -1;
  b.data()[3] = 7;
  stream->enqueue(touch("careless", {a.writes()}, [&] {
    seen = b.data()[3];
    a.data()[0] = 1;
  }));
  const std::string text = met_by(*stream);
  for (const char* part : {"'careless'", "sim:1/compute", "'second'", "byte 12", "does not declare"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(seen, 7) << "it is let through, and told";
  EXPECT_EQ(b.data()[3], 7) << "the host may read on";
  // The next operation is judged anew.
  stream->enqueue(touch("writer", {a.writes()}, [&] { b.data()[50] = 1; }));
  const std::string next = met_by(*stream);
  EXPECT_NE(next.find("'writer'"), std::string::npos) << next;
  EXPECT_NE(next.find("byte 200"), std::string::npos) << next;
}

TEST(SimGuard, WritingWhatIsDeclaredAsReadIsAnError) {
  const DeviceSet devices = guarded();
  const auto stream = devices[0].create_stream("s");
  const Buffer<int> a(*stream, 100, "table");
  int sum = 0;
  stream->enqueue(touch("reader", {a.reads()}, [&] { sum = a.data()[0]; }));
  EXPECT_EQ(met_by(*stream), "");
  stream->enqueue(touch("liar", {a.reads()}, [&] { a.data()[1] = 5; }));
  const std::string text = met_by(*stream);
  for (const char* part : {"'liar'", "writes", "'table'", "byte 4", "declares as read"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(SimGuard, ACopyThatDeclaresNothingMayTouchItsEnds) {
  const DeviceSet devices = guarded();
  const auto stream = devices[0].create_stream("s");
  const Buffer<int> a(*stream, 100, "a"), b(*stream, 100, "b"), c(*stream, 100, "c");
  a.data()[7] = 3;
  stream->enqueue(copy_operation("hook's copy", b.data(), a.data(), 400, {}));
  EXPECT_EQ(met_by(*stream), "");
  EXPECT_EQ(b.data()[7], 3);
  stream->enqueue(copy_operation("half declared", b.data(), a.data(), 400, {b.writes()}));
  EXPECT_NE(met_by(*stream).find("'a'"), std::string::npos);
  stream->enqueue(copy_operation("two pieces", {{b.data(), a.data(), 4}, {c.data(), a.data(), 4}}, {}));
  EXPECT_NE(met_by(*stream).find("'c'"), std::string::npos) << "only the first piece's are known";
}

TEST(SimGuard, ItSeesThreadsAndOtherDevices) {
  const DeviceSet devices = guarded();
  const auto one = devices[0].create_stream("s"), two = devices[1].create_stream("s");
  const Buffer<int> mine(*one, 1 << 16, "mine"), theirs(*two, 1 << 16, "theirs");
  Operation operation;
  operation.name = "wide";
  operation.accesses = {mine.writes()};
  operation.body = [&](LaunchContext& context) {
    context.parallel_for(1 << 16, 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) mine.data()[i] = theirs.data()[i];
    });
  };
  one->enqueue(std::move(operation));
  const std::string text = met_by(*one);
  EXPECT_NE(text.find("'theirs'"), std::string::npos) << text;
  EXPECT_NE(text.find("'wide' on sim:0/s"), std::string::npos) << text;
}

TEST(SimGuard, SceneMemoryMayBeReadByAll) {
  const DeviceSet devices = guarded("sim:1");
  const auto stream = devices[0].create_stream("s");
  const Buffer<int> nodes(*stream, 10, "nodes", MemoryUse::scene);
  int seen = 0;
  stream->enqueue(touch("upload", {nodes.writes()}, [&] { nodes.data()[2] = 9; }));
  stream->enqueue(touch("trace", {}, [&] { seen = nodes.data()[2]; }));
  EXPECT_EQ(met_by(*stream), "");
  EXPECT_EQ(seen, 9);
  stream->enqueue(touch("vandal", {}, [&] { nodes.data()[2] = 1; }));
  EXPECT_NE(met_by(*stream).find("'nodes'"), std::string::npos);
}

TEST(SimGuard, AFaultOfOthersStillEndsTheProcess) {
  const DeviceSet devices = guarded("sim:1");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        volatile int* nowhere = nullptr;
        *nowhere = 1;
      },
      "");
}

#else

TEST(SimGuard, NeedsLinux) {
  GTEST_SKIP() << "pages are protected on Linux only";
}

#endif

TEST(SimGuard, IsOffInReleaseBuildsUnlessAskedFor) {
#ifdef NDEBUG
  const DeviceSet devices = open_devices("sim:1");
  const auto stream = devices[0].create_stream("s");
  const Buffer<int> a(*stream, 4, "a");
  stream->enqueue(touch("careless", {}, [&] { a.data()[0] = 1; }));
  EXPECT_EQ(met_by(*stream), "");
#else
  GTEST_SKIP() << "built with assertions: the guard is on";
#endif
}

}  // namespace
}  // namespace shardwise
