// A run's points: what a call that nobody waits for has to wait for.

#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/pending.hpp"

namespace shardwise {
namespace {

Operation launch(std::string name, std::function<void()> body) {
  Operation operation;
  operation.name = std::move(name);
  operation.body = [body = std::move(body)](LaunchContext&) { body(); };
  return operation;
}

struct RunPoints : ::testing::Test {
  RunPoints() {
    set_error_hook([this](const std::string& message) { reported.push_back(message); });
  }
  ~RunPoints() override { set_error_hook({}); }
  std::vector<std::string> reported;
};

TEST_F(RunPoints, OnePerStreamUsedAndWaitDoesNotBlockBehindThem) {
  for (const char* spec : {"host:2x1", "sim:2"}) {
    const DeviceSet devices = open_devices(spec);
    Executor executor(devices);
    Graph graph;
    std::atomic<int> ran{0};
    graph.add(0, StreamRole::compute, launch("a", [&] { ++ran; }));
    graph.add(1, StreamRole::copy_in, launch("b", [&] { ++ran; }));
    graph.add(1, StreamRole::copy_in, launch("c", [&] { ++ran; }));
    shardwise::Run run = executor.run(std::move(graph));
    std::set<std::string> where;
    for (const PendingPoint& point : run.points()) {
      where.insert(point.where);
      EXPECT_TRUE(point.event.wait_on_host_for(60));
    }
    EXPECT_EQ(where, (std::set<std::string>{devices[0].name() + "/compute", devices[1].name() + "/in"}));
    EXPECT_EQ(ran, 3);
    run.wait();
    EXPECT_TRUE(run.points().empty());
  }
}

TEST_F(RunPoints, AHangingRunThatNobodyWaitsForIsReportedByNameAndItsMemoryStays) {
  const DeviceSet devices = open_devices("host:2x1");
  std::atomic<bool> go{false};
  auto memory = std::make_shared<std::vector<int>>(1000, 0);
  const std::weak_ptr<std::vector<int>> watch = memory;
  {
    Executor executor(devices);
    Graph graph;
    graph.add(0, StreamRole::compute, launch("quick", [] {}));
    graph.add(1, StreamRole::compute, launch("slow kernel", [&go, data = memory.get()] {
                go.wait(false);
                for (int& x : *data) ++x;  // freed memory here would be found by the address sanitizer
              }));
    auto run = std::make_shared<shardwise::Run>(executor.run(std::move(graph)));
    {
      const auto points = run->points();
      Pending<int> pending(
          [run, memory = std::move(memory)] {
            run->wait();
            return memory->front();
          },
          "trace", points);
      pending.set_deadline(0.05);
    }
    ASSERT_EQ(reported.size(), 1u);
    for (const char* part : {"trace", "host:1/compute", "'slow kernel'"})
      EXPECT_NE(reported[0].find(part), std::string::npos) << "'" << part << "' is not in: " << reported[0];
    go = true;
    go.notify_all();
    // The executor goes on behind it.
    Graph next;
    bool ran = false;
    next.add(1, StreamRole::compute, launch("next", [&] { ran = true; }));
    executor.run(std::move(next)).wait();
    EXPECT_TRUE(ran);
  }
  ASSERT_FALSE(watch.expired());
  EXPECT_EQ(watch.lock()->back(), 1);
}

TEST_F(RunPoints, TheErrorOfARunThatNobodyWaitsForGoesToTheHook) {
  const DeviceSet devices = open_devices("host:1");
  Executor executor(devices);
  Graph graph;
  graph.add(0, StreamRole::compute, launch("bad", [] { throw Error(ErrorClass::device, "boom"); }));
  auto run = std::make_shared<shardwise::Run>(executor.run(std::move(graph)));
  {
    Pending<int> pending(
        [run] {
          run->wait();
          return 0;
        },
        "trace", run->points());
  }
  EXPECT_EQ(reported, (std::vector<std::string>{"boom"}));
}

}  // namespace
}  // namespace shardwise
