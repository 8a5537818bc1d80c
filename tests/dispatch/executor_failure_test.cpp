// Failing operations: the cause is thrown, consequences are not, callers see no garbage, and the executor
// goes on.

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "dispatch/scenario.hpp"
#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

using test::Scenario;
using test::ScenarioOptions;

class Failing : public ::testing::TestWithParam<const char*> {
 protected:
  DeviceSet devices_ = open_devices(GetParam());
  Executor executor_{devices_};

  /// Options under which the named operations fail with these classes.
  ScenarioOptions failing(std::map<std::string, ErrorClass> faults) {
    ScenarioOptions options;
    options.rows = 300;
    options.fault = [faults = std::move(faults)](const std::string& name) {
      if (const auto fault = faults.find(name); fault != faults.end())
        throw Error(fault->second, name + " broke");
    };
    return options;
  }
  /// Runs the scenario; the error that wait() throws.
  Error error_of(Scenario& scenario) {
    scenario.enqueue_before();
    shardwise::Run run = executor_.run(scenario.graph());
    scenario.enqueue_after();
    try {
      run.wait();
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorClass::internal, "nothing was thrown");
  }
  void expect_usable() {
    ScenarioOptions options;
    options.salt = 77;
    Scenario scenario(executor_, options);
    scenario.enqueue_before();
    shardwise::Run run = executor_.run(scenario.graph());
    scenario.enqueue_after();
    run.wait();
    scenario.synchronize_callers();
    EXPECT_EQ(scenario.output(), scenario.expected());
  }
};

TEST_P(Failing, ALostExitEdgeIsTheErrorUnlessAnOperationFailedBefore) {
  for (int device = 0; device < devices_.size(); ++device)
    for (const bool breaks : {false, true}) {
      ScenarioOptions options = failing({});
      if (breaks) options = failing({{"rows of master", ErrorClass::budget}});
      Scenario scenario(executor_, options);
      scenario.enqueue_before();
      executor_.lose_next_exit_to(device);
      shardwise::Run run = executor_.run(scenario.graph());
      EXPECT_TRUE(run.exit_edge_lost());
      EXPECT_NE(run.exit_edge_error().find("caller of " + devices_[device].name()), std::string::npos)
          << run.exit_edge_error();
      try {
        run.wait();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.error_class(), breaks ? ErrorClass::budget : ErrorClass::lost) << error.what();
        const std::string text = error.what();
        EXPECT_NE(text.find("exit edge"), std::string::npos) << text;
        EXPECT_EQ(text.rfind("rows of master broke", 0) == 0, breaks) << text;
      }
      // Once: the next run has all its edges.
      Scenario next(executor_, failing({}));
      next.enqueue_before();
      shardwise::Run whole = executor_.run(next.graph());
      next.enqueue_after();
      EXPECT_FALSE(whole.exit_edge_lost());
      EXPECT_EQ(whole.exit_edge_error(), "");
      whole.wait();
      next.synchronize_callers();
      EXPECT_EQ(next.output(), next.expected());
    }
}

TEST_P(Failing, DrainWaitsForAllAndForgetsErrors) {
  Scenario scenario(executor_, failing({{"rows of master", ErrorClass::budget}}));
  scenario.enqueue_before();
  shardwise::Run run = executor_.run(scenario.graph());
  executor_.drain();
  for (const PendingPoint& point : run.points()) EXPECT_TRUE(point.event.is_signalled()) << point.where;
  for (int device = 0; device < devices_.size(); ++device)
    for (int role = 0; role < stream_roles; ++role)
      EXPECT_EQ(executor_.stream(device, static_cast<StreamRole>(role)).error(), "");
  // The run's own error is not lost by that.
  EXPECT_THROW(run.wait(), Error);
}

INSTANTIATE_TEST_SUITE_P(Sets, Failing, ::testing::Values("host:3x1", "sim:3"), [](const auto& info) {
  return std::string(info.param).substr(0, info.param[0] == 'h' ? 4 : 3);
});

TEST_P(Failing, TheCauseIsThrownAndNotWhatWasDroppedBehindIt) {
  // Each is on another stream; the master's "read back" is always dropped, on a lower device than the cause.
  for (const char* name : {"scatter 1 of 2", "rows 0 of 1", "gather 3 of 2", "rows of master", "read back"}) {
    Scenario scenario(executor_, failing({{name, ErrorClass::budget}}));
    const Error error = error_of(scenario);
    EXPECT_EQ(error.error_class(), ErrorClass::budget);
    EXPECT_STREQ(error.what(), (std::string(name) + " broke").c_str());
    EXPECT_NE(scenario.output(), scenario.expected()) << "the caller read what was never made";
    scenario.synchronize_callers();
    expect_usable();
  }
}

TEST_P(Failing, TheLowestDeviceAndOperationIsThrownWithTheOthersListed) {
  // Operation order on device 1: scatter 0, rows 0, gather 0, scatter 1, ... Two of device 1, one of
  // device 2.
  Scenario scenario(executor_, failing({{"scatter 1 of 1", ErrorClass::memory},
                                        {"gather 0 of 1", ErrorClass::io},
                                        {"scatter 0 of 2", ErrorClass::data}}));
  const Error error = error_of(scenario);
  EXPECT_STREQ(error.what(), "gather 0 of 1 broke (also: scatter 1 of 1 broke; scatter 0 of 2 broke)");
  EXPECT_EQ(error.error_class(), ErrorClass::io);
  expect_usable();
}

TEST_P(Failing, TheCallersOwnFailureIsTheCause) {
  Scenario scenario(executor_, failing({{"caller fills input", ErrorClass::data}}));
  const Error error = error_of(scenario);
  EXPECT_EQ(error.error_class(), ErrorClass::data);
  EXPECT_STREQ(error.what(), "caller fills input broke");
  expect_usable();
}

TEST_P(Failing, OfTheCallersOwnStreamsTheConsequenceIsTold) {
  const auto mine = devices_[0].create_stream("mine");
  ExecutionContext context = executor_.default_context();
  context.streams[0] = *mine;
  Operation bad;
  bad.name = "mine";
  bad.body = [](LaunchContext&) { throw Error(ErrorClass::data, "mine broke"); };
  mine->enqueue(std::move(bad));
  bool ran = false;
  Graph graph;
  Operation work;
  work.name = "work";
  work.body = [&](LaunchContext&) { ran = true; };
  graph.add(1, StreamRole::compute, std::move(work));
  shardwise::Run run = executor_.run(std::move(graph), context);
  try {
    run.wait();
    FAIL();
  } catch (const DependencyError& error) {
    EXPECT_NE(std::string(error.what()).find("'mine' failed"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(ran);
  // The caller's stream is the caller's to clear: it tells its own, first error.
  try {
    mine->synchronize();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "mine broke");
  }
  expect_usable();
}

TEST_P(Failing, ARunBehindAFailedOneFailsToo) {
  Scenario bad(executor_, failing({{"rows 0 of 1", ErrorClass::memory}})), good(executor_, ScenarioOptions{});
  bad.enqueue_before();
  shardwise::Run first = executor_.run(bad.graph());
  good.enqueue_before();
  shardwise::Run second = executor_.run(good.graph());
  try {
    first.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rows 0 of 1 broke");
  }
  // It was dropped, so it may not look finished, although the first wait() took the error out of the streams.
  try {
    second.wait();
    FAIL() << "a dropped run looks finished";
  } catch (const DependencyError& error) {
    EXPECT_NE(std::string(error.what()).find("earlier call"), std::string::npos) << error.what();
  }
  expect_usable();
}

TEST_P(Failing, ExceptionsOfOtherTypesComeOutAsTheyAre) {
  ScenarioOptions options = failing({});
  options.fault = [](const std::string& name) {
    if (name == "rows 1 of 1") throw std::out_of_range("index 9");
  };
  Scenario scenario(executor_, options);
  scenario.enqueue_before();
  shardwise::Run run = executor_.run(scenario.graph());
  EXPECT_THROW(run.wait(), std::out_of_range);
  options.fault = [](const std::string& name) {
    if (name == "rows 1 of 1") throw std::out_of_range("index 9");
    if (name == "rows 1 of 2") throw 42;
  };
  Scenario both(executor_, options);
  EXPECT_STREQ(error_of(both).what(), "index 9 (also: unknown error)");
  expect_usable();
}

TEST_P(Failing, ExitEdgesAreMadeAlsoWhenEnqueuingThrows) {
  // A context whose second stream is of another backend: the entry of device 1 throws in the middle of the
  // graph.
  const DeviceSet foreign = open_devices(GetParam()[0] == 'h' ? "sim:1" : "host:1x1");
  const auto stranger = foreign[0].create_stream("stranger");
  ExecutionContext context = executor_.default_context();
  context.streams[1] = *stranger;
  const Buffer<int> x(*context.streams[0], 4, "x");
  Graph graph;
  bool ran_first = false, ran_second = false, read = false;
  Operation first, second, after;
  first.name = "first", second.name = "second", after.name = "after";
  first.accesses = {x.writes()};
  first.body = [&](LaunchContext&) { ran_first = true; };
  second.body = [&](LaunchContext&) { ran_second = true; };
  after.accesses = {x.writes()};
  after.body = [&](LaunchContext&) { read = ran_first; };
  graph.add(0, StreamRole::compute, std::move(first));
  graph.add(1, StreamRole::compute, std::move(second));
  shardwise::Run run = executor_.run(std::move(graph), context);
  bool has_exit = false;
  for (const ExecutorEdge& edge : executor_.edges())
    has_exit = has_exit || (edge.from == devices_[0].name() + "/compute exit" &&
                            edge.to == "caller of " + devices_[0].name());
  EXPECT_TRUE(has_exit);
  context.streams[0]->enqueue(std::move(after));
  try {
    run.wait();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage) << error.what();
  }
  context.streams[0]->synchronize();
  EXPECT_TRUE(ran_first);
  EXPECT_FALSE(ran_second);
  EXPECT_TRUE(read) << "the caller's stream was not behind what had been enqueued";
  if (devices_.sim_world()) {
    EXPECT_TRUE(devices_.sim_world()->races().empty());
  }
  expect_usable();
}

TEST_P(Failing, ManyFailuresInARowLeaveNothingBehind) {
  for (int round = 0; round < 20; ++round) {
    std::string name = "rows ";
    name += std::to_string(round % 4) + " of " + std::to_string(1 + round % 2);
    Scenario scenario(executor_, failing({{name, ErrorClass::device}}));
    EXPECT_EQ(std::string(error_of(scenario).what()), name + " broke");
  }
  expect_usable();
}

}  // namespace
}  // namespace shardwise
