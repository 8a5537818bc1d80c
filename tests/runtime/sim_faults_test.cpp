// Fault scripts: their text, and what sim devices do with them.

#include <gtest/gtest.h>

#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/links.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {
namespace {

std::string usage_of(const std::string& script) {
  try {
    (void)parse_faults(script, "--sim-faults");
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    return error.what();
  }
  return "accepted";
}

TEST(FaultScripts, AreReadAndWrittenBack) {
  const std::string text =
      "device 1 launch 7 fails; device 0 copy 2 lost; device 2 allocation 1 fails; "
      "device 1 launch 3 hangs; device * copy * of \"gather rows\" fails; device 1 operation 4 lost; "
      "device 1 slow 10; link 0 1 slow 2.5; link 0 1 no-peer; random 42 0.001; deadline 5";
  const FaultScript script = parse_faults(text);
  EXPECT_EQ(script.faults.size(), 9u);
  EXPECT_EQ(script.text(), text);
  EXPECT_EQ(parse_faults(script.text()).text(), text);
  EXPECT_EQ(parse_faults("\n# nothing\n\tdevice  1 launch 7\tfails # the seventh\n;;\n").text(),
            "device 1 launch 7 fails");
  EXPECT_TRUE(parse_faults("").empty());
  EXPECT_FALSE(parse_faults("random 1 0.5").empty());
}

TEST(FaultScripts, MistakesAreNamedWithLineAndNearestWord) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {"device 1 launch 7 fails\ndevise 1 launch 7 fails", {"line 2", "'devise'", "did you mean 'device'"}},
      {"device 1 lunch 7 fails", {"'lunch'", "did you mean 'launch'"}},
      {"device 1 launch 7 failed", {"'failed'", "did you mean 'fails'"}},
      {"device x launch 7 fails", {"'x' is no device number"}},
      {"device 1 launch 0 fails", {"'0' is no number of a step", "from 1"}},
      {"device 1 launch 7", {"something is missing", "fails, lost, hangs"}},
      {"device 1 launch 7 fails now", {"'now' is one word too many"}},
      {"device 1 launch 1 of trace fails", {"quotes"}},
      {"device 1 launch 1 of \"trace fails", {"no end"}},
      {"device 1 allocation 1 hangs", {"cannot hang"}},
      {"device 1 slow 0", {"above 0"}},
      {"device 1 slow nan", {"'nan'"}},
      {"link 0 0 slow 2", {"two different devices"}},
      {"link 0 1 fast 2", {"'fast'", "slow, no-peer"}},
      {"random 1 1.5", {"0 to 1"}},
      {"random -1 0.5", {"'-1' is no seed"}},
      {"deadline 0", {"above 0"}},
  };
  for (const auto& [script, parts] : cases) {
    const std::string message = usage_of(script);
    EXPECT_EQ(message.rfind("--sim-faults: line ", 0), 0u) << message;
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

/// Why devices are not opened, or "accepted".
std::string usage_error_of(const std::string& spec, const OpenOptions& options) {
  try {
    (void)open_devices(spec, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    return error.what();
  }
  return "accepted";
}

TEST(FaultScripts, OfDevicesThatAreNotThereOrRealAreRefused) {
  const auto error_of = [](const std::string& spec, const std::string& script) -> std::string {
    OpenOptions options;
    options.sim_faults = script;
    return usage_error_of(spec, options);
  };
  EXPECT_NE(error_of("sim:2", "device 2 launch 1 fails").find("device 2, there are 2"), std::string::npos);
  EXPECT_NE(error_of("sim:2", "link 0 5 slow 2").find("device 5"), std::string::npos);
  EXPECT_NE(error_of("host:1x1", "device 0 launch 1 fails").find("only sim"), std::string::npos);
  EXPECT_EQ(error_of("sim:2", "link 0 1 no-peer"), "accepted");
  const DeviceSet devices = open_devices("sim:2");
  EXPECT_THROW(devices.sim_world()->set_faults("link 0 1 no-peer"), Error);
  EXPECT_THROW((void)devices.sim_world()->fault_steps(2), Error);
}

Operation work(const std::string& name, int& ran) {
  Operation operation;
  operation.name = name;
  operation.body = [&ran](LaunchContext&) { ++ran; };
  return operation;
}

/// The class and text of what a stream has met; `internal` and nothing where all went well.
Error met_by(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorClass::internal, ""};
}

TEST(Faults, ALaunchFailsAndWhatIsBehindItIsDropped) {
  const DeviceSet devices = open_devices("sim:2");
  SimWorld& world = *devices.sim_world();
  for (const int number : {1, 2, 3}) {
    const auto stream = devices[1].create_stream("s");
    world.set_faults("device 1 launch " + std::to_string(number) + " fails");
    int ran = 0;
    for (int i = 0; i < 3; ++i) stream->enqueue(work("work " + std::to_string(i), ran));
    const Event end = stream->record();
    const Error error = met_by(*stream);
    EXPECT_EQ(error.error_class(), ErrorClass::device);
    EXPECT_NE(std::string(error.what()).find("'work " + std::to_string(number - 1) + "'"), std::string::npos)
        << error.what();
    EXPECT_TRUE(end.failed());
    EXPECT_EQ(ran, number - 1);
    EXPECT_EQ(world.faults_met().size(), 1u);
    EXPECT_EQ(world.fault_steps(1).launches, number);
    // The device is there: the next operation runs.
    stream->enqueue(work("next", ran));
    EXPECT_EQ(met_by(*stream).error_class(), ErrorClass::internal);
    EXPECT_EQ(ran, number);
    EXPECT_EQ(devices[1].lost(), "");
  }
}

TEST(Faults, StepsAreCountedByKindAndName) {
  const DeviceSet devices = open_devices("sim:1");
  SimWorld& world = *devices.sim_world();
  const auto stream = devices[0].create_stream("s");
  const auto run = [&](const std::string& script) {
    world.set_faults(script);
    int ran = 0;
    char from = 1, to = 0;
    stream->enqueue(work("alpha 1", ran));
    stream->enqueue(copy_operation("send", &to, &from, 1, {}));
    stream->enqueue(work("beta", ran));
    stream->enqueue(work("alpha 2", ran));
    stream->enqueue(copy_operation("gather", &to, &from, 1, {}));
    return std::string(met_by(*stream).what());
  };
  EXPECT_EQ(run(""), "");
  EXPECT_EQ(world.fault_steps(0).launches, 3);
  EXPECT_EQ(world.fault_steps(0).copies, 2);
  EXPECT_NE(run("device 0 copy 2 fails").find("copy 'gather'"), std::string::npos);
  EXPECT_NE(run("device 0 operation 2 fails").find("copy 'send'"), std::string::npos);
  EXPECT_NE(run("device 0 operation 4 fails").find("launch 'alpha 2'"), std::string::npos);
  EXPECT_NE(run("device 0 launch 2 of \"alpha\" fails").find("'alpha 2'"), std::string::npos);
  EXPECT_NE(run("device * launch * of \"beta\" fails").find("'beta'"), std::string::npos);
  EXPECT_EQ(run("device 0 launch 4 fails"), "");
  EXPECT_EQ(run("device 0 copy 1 of \"alpha\" fails"), "");
}

TEST(Faults, ALostDeviceFailsEverythingAndOthersThatTouchItsMemory) {
  const DeviceSet devices = open_devices("sim:2");
  SimWorld& world = *devices.sim_world();
  const auto mine = devices[0].create_stream("mine"), theirs = devices[1].create_stream("theirs"),
             second = devices[1].create_stream("second");
  const Buffer<int> here(*mine, 4, "here"), there(*theirs, 4, "there");
  theirs->synchronize();
  world.set_faults("device 1 launch 1 lost");
  int ran = 0;
  theirs->enqueue(work("fatal", ran));
  EXPECT_EQ(met_by(*theirs).error_class(), ErrorClass::lost);
  EXPECT_NE(devices[1].lost(), "");
  second->enqueue(work("other stream", ran));
  const Error error = met_by(*second);
  EXPECT_EQ(error.error_class(), ErrorClass::lost);
  EXPECT_NE(std::string(error.what()).find("device 1 launch 1 lost"), std::string::npos) << error.what();
  // A copy from it, by addresses; a launch that declares its memory.
  mine->enqueue(copy_operation("pull", here.data(), there.data(), 16, {here.writes()}));
  EXPECT_EQ(met_by(*mine).error_class(), ErrorClass::lost);
  Operation direct = work("direct", ran);
  direct.accesses = {there.reads()};
  mine->enqueue(std::move(direct));
  EXPECT_EQ(met_by(*mine).error_class(), ErrorClass::lost);
  EXPECT_THROW(Buffer<int>(*theirs, 4, "more"), Error);
  mine->enqueue(work("alone", ran));
  EXPECT_EQ(std::string(met_by(*mine).what()), "");
  EXPECT_EQ(ran, 1);
  world.set_faults("");
  theirs->enqueue(work("again", ran));
  EXPECT_EQ(std::string(met_by(*theirs).what()), "");
  EXPECT_EQ(ran, 2);
}

TEST(Faults, AllocationsFailByNumberAndBeyondTheMemory) {
  const DeviceSet devices = open_devices("sim:1");
  const auto stream = devices[0].create_stream("s");
  devices.sim_world()->set_faults("device 0 allocation 2 fails");
  const Buffer<int> first(*stream, 10, "first");
  const std::uint64_t before = devices[0].memory(MemoryUse::work).current();
  try {
    const Buffer<int> second(*stream, 10, "second");
    ADD_FAILURE() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::memory);
    EXPECT_NE(std::string(error.what()).find("second"), std::string::npos) << error.what();
  }
  EXPECT_EQ(devices[0].memory(MemoryUse::work).current(), before);
  const Buffer<int> third(*stream, 10, "third");
}

TEST(Faults, WhatHangsIsLostAtTheDeadlineOfVirtualTime) {
  const DeviceSet devices = open_devices("sim:2");
  SimWorld& world = *devices.sim_world();
  world.set_faults("device 1 launch 2 hangs; deadline 7");
  const auto stuck = devices[1].create_stream("stuck"), free = devices[0].create_stream("free");
  int ran = 0, beside = 0;
  for (int i = 0; i < 3; ++i) stuck->enqueue(work("work", ran));
  for (int i = 0; i < 3; ++i) free->enqueue(work("work", beside));
  const Event point = stuck->record();
  const double begin = world.virtual_time();
  // Whoever has less patience gives up before.
  EXPECT_FALSE(point.wait_on_host_for(6.9));
  EXPECT_EQ(beside, 3) << "others go on meanwhile";
  EXPECT_TRUE(point.wait_on_host_for(7.1));
  EXPECT_TRUE(point.failed());
  const Error error = met_by(*stuck);
  EXPECT_EQ(error.error_class(), ErrorClass::lost);
  EXPECT_NE(std::string(error.what()).find("within 7 s"), std::string::npos) << error.what();
  EXPECT_GE(world.virtual_time() - begin, 7.0);
  EXPECT_EQ(ran, 1);
}

TEST(Faults, AStreamThatHangsCanBeDestroyed) {
  const DeviceSet devices = open_devices("sim:1");
  devices.sim_world()->set_faults("device 0 launch 1 hangs");
  int ran = 0;
  {
    const auto stream = devices[0].create_stream("s");
    const Buffer<int> memory(*stream, 5, "held");
    stream->enqueue(work("work", ran));
  }
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(devices[0].memory(MemoryUse::work).current(), 0u);
}

TEST(Faults, SlowDevicesAndLinksTakeLonger) {
  const DeviceSet devices = open_devices("sim:3");
  SimWorld& world = *devices.sim_world();
  const auto s0 = devices[0].create_stream("0"), s1 = devices[1].create_stream("1");
  const Buffer<char> a(*s0, 1 << 20, "a"), b(*s1, 1 << 20, "b");
  const auto seconds = [&](Stream& stream, const std::function<Operation()>& make) {
    const Event begin = stream.record_timed();
    stream.enqueue(make());
    const Event end = stream.record_timed();
    stream.synchronize();
    return seconds_between(begin, end);
  };
  int ran = 0;
  const auto launch = [&] {
    Operation operation = work("w", ran);
    operation.items = 1000;
    return operation;
  };
  const auto copy = [&] { return copy_operation("c", b.data(), a.data(), 1 << 20, {b.writes(), a.reads()}); };
  const auto back = [&] { return copy_operation("c", a.data(), b.data(), 1 << 20, {a.writes(), b.reads()}); };
  const double launch_s = seconds(*s1, launch), copy_s = seconds(*s1, copy), back_s = seconds(*s1, back);
  world.set_faults("device 1 slow 10");
  EXPECT_NEAR(seconds(*s1, launch), 10 * launch_s, 1e-12);
  EXPECT_NEAR(seconds(*s0, launch), launch_s, 1e-12);
  world.set_faults("link 0 1 slow 20");
  EXPECT_NEAR(seconds(*s1, copy), 20 * copy_s, 1e-12);
  EXPECT_NEAR(seconds(*s1, back), back_s, 1e-12);
  EXPECT_NEAR(seconds(*s1, launch), launch_s, 1e-12);
}

TEST(Faults, WithoutPeerAccessCopiesAreStaged) {
  OpenOptions options;
  options.sim_faults = "link 0 1 no-peer";
  const DeviceSet devices = open_devices("sim:8xh200", options), whole = open_devices("sim:8xh200");
  EXPECT_FALSE(devices.can_peer(0, 1));
  EXPECT_FALSE(devices.can_peer(1, 0));
  EXPECT_TRUE(devices.can_peer(0, 2));
  EXPECT_TRUE(whole.can_peer(0, 1));
  EXPECT_EQ(devices.warnings(),
            std::vector<std::string>{
                "no working peer access sim:0 to sim:1, sim:1 to sim:0: copies go through host memory"});
  EXPECT_TRUE(whole.warnings().empty());
  const auto seconds = [](const DeviceSet& set) {
    const auto s0 = set[0].create_stream("0"), s1 = set[1].create_stream("1");
    const Buffer<char> a(*s0, 1 << 20, "a"), b(*s1, 1 << 20, "b");
    const Event begin = s1->record_timed();
    s1->enqueue(copy_operation("c", b.data(), a.data(), 1 << 20, {}));
    const Event end = s1->record_timed();
    s1->synchronize();
    return seconds_between(begin, end);
  };
  EXPECT_NEAR(seconds(whole), 7e-6 + (1 << 20) / 396e9, 1e-12);
  EXPECT_NEAR(seconds(devices), 20e-6 + (1 << 20) / 54e9, 1e-12);
}

TEST(Faults, PairsWithoutPeerAccessAreRefusedWhereItIsRequired) {
  const auto error_of = [](const std::string& spec, const std::string& faults) -> std::string {
    OpenOptions options;
    options.require_peer = true;
    options.sim_faults = faults;
    return usage_error_of(spec, options);
  };
  EXPECT_EQ(error_of("sim:3", ""), "accepted");
  EXPECT_EQ(error_of("sim:8xh200", ""), "accepted");
  EXPECT_EQ(
      error_of("sim:3", "link 1 2 no-peer"),
      "devices: no working peer access sim:1 to sim:2, sim:2 to sim:1; drop --require-peer to copy through "
      "host memory");
  EXPECT_NE(error_of("sim:2x2xh200", "")
                .find("sim:0 to sim:2, sim:0 to sim:3, sim:1 to sim:2, sim:1 to sim:3 and 4 more pairs;"),
            std::string::npos);
  // A machine of two nodes is meant to be one.
  EXPECT_TRUE(open_devices("sim:2x2xh200").warnings().empty());
  EXPECT_EQ(measure_links(open_devices("sim:2x1xh200")).front().path, LinkPath::staged);
}

TEST(Faults, RandomOnesFollowTheSeed) {
  const auto run = [](std::uint64_t seed) {
    OpenOptions options;
    options.sim_faults = "random " + std::to_string(seed) + " 0.05";
    const DeviceSet devices = open_devices("sim:3", options);
    int ran = 0;
    for (int i = 0; i < 40; ++i)
      for (int d = 0; d < 3; ++d) {
        const auto stream = devices[d].create_stream("s");
        stream->enqueue(work("w", ran));
        (void)met_by(*stream);
      }
    return devices.sim_world()->faults_met();
  };
  std::size_t met = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(run(seed), run(seed));
    met += run(seed).size();
  }
  EXPECT_NE(run(1), run(2));
  EXPECT_GT(met, 20u);
  OpenOptions never;
  never.sim_faults = "random 1 0";
  EXPECT_TRUE(open_devices("sim:1", never).sim_world()->faults_met().empty());
}

}  // namespace
}  // namespace shardwise
