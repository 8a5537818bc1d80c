#include "shardwise/runtime/timeline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {
namespace {

TimelineRecord record(std::string device, std::string stream, std::string name, OperationKind kind,
                      double begin, double end, std::uint64_t bytes = 0, std::string waited_for = {}) {
  return {std::move(device),    std::move(stream), std::move(name), kind, bytes, begin, end,
          std::move(waited_for)};
}

/// d0: compute 0-4, a copy beside it 3-6, idle 6-8, compute 8-10 behind "gather". d1: copy 1-2 only.
struct Example {
  Timeline timeline;
  Example() {
    timeline.add(record("d0", "compute", "trace", OperationKind::launch, 0, 4));
    timeline.add(record("d0", "out", "send", OperationKind::copy, 3, 6, 100));
    timeline.add(record("d0", "compute", "merge", OperationKind::launch, 8, 10, 0, "gather"));
    timeline.add(record("d1", "in", "scatter", OperationKind::copy, 1, 2, 40));
  }
};

TEST(TimelineSummary, DividesTheTimeOfEachDevice) {
  const Example example;
  const std::vector<TimelineSummary> summary = example.timeline.summary();
  ASSERT_EQ(summary.size(), 2u);
  EXPECT_EQ(summary[0].device, "d0");
  EXPECT_DOUBLE_EQ(summary[0].busy_s, 6);
  EXPECT_DOUBLE_EQ(summary[0].transferring_s, 2);
  EXPECT_DOUBLE_EQ(summary[0].idle_s, 2);
  EXPECT_EQ(summary[0].bytes_out, 100u);
  EXPECT_EQ(summary[0].idle_waited_for, "gather");
  EXPECT_EQ(summary[1].device, "d1");
  EXPECT_DOUBLE_EQ(summary[1].busy_s, 0);
  EXPECT_DOUBLE_EQ(summary[1].transferring_s, 1);
  EXPECT_DOUBLE_EQ(summary[1].idle_s, 9);
  EXPECT_EQ(summary[1].bytes_in, 40u);
}

TEST(TimelineSummary, ListsDevicesThatDidNothing) {
  Example example;
  example.timeline.set_devices({"d2", "d1", "d0"});
  const std::vector<TimelineSummary> summary = example.timeline.summary();
  ASSERT_EQ(summary.size(), 3u);
  EXPECT_EQ(summary[0].device, "d2");
  EXPECT_DOUBLE_EQ(summary[0].idle_s, 10);
  EXPECT_DOUBLE_EQ(summary[0].busy_s, 0);
  EXPECT_EQ(summary[2].device, "d0");
}

TEST(TimelineTrace, IsChromeTraceJson) {
  const Example example;
  std::ostringstream out;
  example.timeline.write_chrome_trace(out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_TRUE(json.at("schema").is_number_integer());
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  int complete = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      processes[event.at("pid")] = event.at("args").at("name");
    else if (event.at("ph") == "M" && event.at("name") == "thread_name")
      threads[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    else
      ASSERT_EQ(event.at("ph"), "X");
  }
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    ++complete;
    ASSERT_TRUE(threads.contains({event.at("pid"), event.at("tid")}));
    if (event.at("name") == "send") {
      EXPECT_EQ(processes.at(event.at("pid")), "d0");
      EXPECT_EQ((threads.at({event.at("pid"), event.at("tid")})), "out");
      EXPECT_EQ(event.at("cat"), "copy");
      EXPECT_DOUBLE_EQ(event.at("ts"), 3e6);
      EXPECT_DOUBLE_EQ(event.at("dur"), 3e6);
      EXPECT_EQ(event.at("args").at("bytes"), 100);
    }
    if (event.at("name") == "merge") {
      EXPECT_EQ(event.at("args").at("waited_for"), "gather");
    }
  }
  EXPECT_EQ(complete, 4);
  EXPECT_EQ(processes.size(), 2u);
  EXPECT_EQ(threads.size(), 3u);
}

TEST(TimelineTrace, AnEmptyTraceIsValid) {
  std::ostringstream out;
  Timeline().write_chrome_trace(out);
  EXPECT_TRUE(nlohmann::json::parse(out.str()).at("traceEvents").empty());
  EXPECT_TRUE(Timeline().summary().empty());
}

class Recording : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Platforms, Recording, ::testing::Values("host:2x1", "sim:2"), [](const auto& info) {
  return std::string(info.param).substr(0, info.param[0] == 'h' ? 4 : 3);
});

TEST_P(Recording, SeesEveryCopyAndLaunchWhileItIsOn) {
  const DeviceSet devices = open_devices(GetParam());
  Timeline& timeline = devices.timeline();
  const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
  const auto launch = [](const char* name) {
    Operation operation;
    operation.name = name;
    operation.body = [](LaunchContext&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
    return operation;
  };
  const auto once = [&](const char* name) {
    const Buffer<int> x(*a, 10, "x"), y(*a, 10, "y");
    a->enqueue(launch(name));
    a->enqueue(copy_operation("copy", y, x));
    b->wait(a->record());
    b->enqueue(launch("behind"));
    b->synchronize();
    a->synchronize();
  };
  once("before");
  EXPECT_TRUE(timeline.records().empty());
  timeline.start();
  EXPECT_TRUE(timeline.is_recording());
  once("during");
  timeline.stop();
  once("after");

  const std::vector<TimelineRecord> records = timeline.records();
  ASSERT_EQ(records.size(), 3u) << "releases are no work";
  std::map<std::string, TimelineRecord> by_name;
  for (const TimelineRecord& record : records) {
    by_name[record.name] = record;
    EXPECT_GE(record.begin_s, 0);
    EXPECT_GT(record.end_s, record.begin_s);
  }
  EXPECT_EQ(by_name.at("during").device, devices[0].name());
  EXPECT_EQ(by_name.at("during").stream, "a");
  EXPECT_EQ(by_name.at("copy").kind, OperationKind::copy);
  EXPECT_EQ(by_name.at("copy").bytes, 40u);
  EXPECT_EQ(by_name.at("behind").waited_for, "copy");
  EXPECT_LE(by_name.at("during").end_s, by_name.at("copy").begin_s);
  EXPECT_LE(by_name.at("copy").end_s, by_name.at("behind").begin_s);
  const std::vector<TimelineSummary> summary = timeline.summary();
  ASSERT_EQ(summary.size(), 2u);
  EXPECT_EQ(summary[1].idle_waited_for, "copy");
  timeline.start();
  EXPECT_TRUE(timeline.records().empty());
}

TEST(RecordingRestart, MayStartWhileStreamsRun) {
  const DeviceSet devices = open_devices("host:2x1");
  const auto a = devices[0].create_stream("a"), b = devices[1].create_stream("b");
  for (int round = 0; round < 50; ++round) {
    for (Stream* stream : {a.get(), b.get()})
      for (int i = 0; i < 20; ++i) {
        Operation operation;
        operation.body = [](LaunchContext&) {};
        stream->enqueue(std::move(operation));
      }
    devices.timeline().start();
    std::ostringstream out;
    devices.timeline().write_chrome_trace(out);
  }
  a->synchronize();
  b->synchronize();
  EXPECT_LE(devices.timeline().records().size(), 2000u);
}

}  // namespace
}  // namespace shardwise
