// Every fault at every step of every call, on every device, with either policy: the right answer, or one
// error that names the device; then the scene does as promised.

#include <gtest/gtest.h>

#include <cstdio>
#include <optional>

#include "fault_calls.hpp"

namespace shardwise::test {
namespace {

struct Steps {
  std::vector<FaultSteps> devices;
};

/// The steps of a call without faults, and its answer.
std::pair<Bytes, Steps> clean_run(const FaultCall& call, OnDeviceFailure policy = OnDeviceFailure::fail) {
  Scene scene = fault_scene();
  SimWorld& world = *scene.devices().sim_world();
  world.set_faults("");
  const Answer answer = call.run(scene, policy);
  Steps steps;
  for (int d = 0; d < 3; ++d) steps.devices.push_back(world.fault_steps(d));
  EXPECT_TRUE(world.races().empty());
  return {answer.bytes(), std::move(steps)};
}

struct Tally {
  int cases = 0, right = 0, errors = 0, not_met = 0;
};

/// One case. The scene is new.
void run_case(const FaultCall& call, const std::string& script, int device, OnDeviceFailure policy,
              const Bytes& expected, Tally& tally) {
  SCOPED_TRACE(call.name + ", " + script + (policy == OnDeviceFailure::fail ? ", fail" : ", failover"));
  Scene scene = fault_scene(1 + static_cast<std::uint64_t>(tally.cases));
  SimWorld& world = *scene.devices().sim_world();
  const std::uint64_t before = work_bytes(scene);
  const bool sticks = script.find("lost") != std::string::npos || script.find("hangs") != std::string::npos;
  ++tally.cases;
  world.set_faults(script);
  std::optional<Answer> answer;
  try {
    answer = call.run(scene, policy);
  } catch (const Error& error) {
    expect_device_error(error);
    EXPECT_NE(std::string(error.what()).find("sim:" + std::to_string(device)), std::string::npos)
        << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an Error: " << error.what();
  }
  const bool met = !world.faults_met().empty();
  tally.not_met += !met;
  if (answer) {
    ++tally.right;
    EXPECT_EQ(answer->report.failures.size(), met ? 1u : 0u);
    for (const DeviceFailure& failure : answer->report.failures)
      EXPECT_EQ(failure.device, "sim:" + std::to_string(device));
    EXPECT_EQ(scene.retired()[static_cast<std::size_t>(device)], met);
  } else {
    ++tally.errors;
    EXPECT_TRUE(met);
    EXPECT_FALSE(scene.retired()[static_cast<std::size_t>(device)]);
  }
  EXPECT_EQ(answer.has_value(),
            !met || (policy == OnDeviceFailure::failover && device != 0 && call.survives));
  EXPECT_FALSE(scene.is_poisoned());

  // The scene: without the device it goes on; with a device that is gone it fails with the same; once all are
  // there again it works.
  if (answer && met) {
    EXPECT_TRUE(call.run(scene, OnDeviceFailure::fail).bytes() == expected);
  } else if (met && sticks) {
    try {
      (void)call.run(scene, OnDeviceFailure::fail);
      ADD_FAILURE() << "a lost device answered";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::lost) << error.what();
    }
  }
  world.set_faults("");
  if (answer) {
    EXPECT_TRUE(answer->bytes() == expected) << "another answer";
  }
  answer.reset();
  EXPECT_TRUE(call.run(scene, policy).bytes() == expected) << "after the fault";
  EXPECT_EQ(work_bytes(scene), before) << "memory that nobody gave back";
  EXPECT_TRUE(world.races().empty()) << world.races().front().text;
}

/// All scripts for one device and the steps of a call.
std::vector<std::string> scripts_of(int device, const FaultSteps& steps) {
  std::vector<std::string> scripts;
  const auto add = [&](const char* step, std::int64_t count, std::initializer_list<const char*> kinds) {
    for (std::int64_t n = 1; n <= count; ++n)
      for (const char* kind : kinds)
        scripts.push_back("device " + std::to_string(device) + " " + step + " " + std::to_string(n) + " " +
                          kind);
  };
  add("allocation", steps.allocations, {"fails", "lost"});
  add("launch", steps.launches, {"fails", "lost", "hangs"});
  add("copy", steps.copies, {"fails", "lost", "hangs"});
  return scripts;
}

TEST(FaultCases, EveryFaultAtEveryStepOfEveryCall) {
  Tally total;
  for (const FaultCall& call : fault_calls()) {
    Tally tally;
    // Only calls without failover use counters that the scene keeps: they have a step more or less.
    for (const OnDeviceFailure policy : {OnDeviceFailure::fail, OnDeviceFailure::failover}) {
      const auto [expected, steps] = clean_run(call, policy);
      for (int device = 0; device < 3; ++device)
        for (const std::string& script :
             scripts_of(device, steps.devices[static_cast<std::size_t>(device)])) {
          run_case(call, script, device, policy, expected, tally);
          if (::testing::Test::HasFailure()) return;
        }
    }
    std::printf("%-40s %5d cases: %5d right answers, %5d errors (%d faults not met)\n", call.name.c_str(),
                tally.cases, tally.right, tally.errors, tally.not_met);
    EXPECT_GT(tally.cases, 100);
    EXPECT_EQ(tally.not_met, 0) << "the steps of a call do not depend on the schedule";
    total.cases += tally.cases;
    total.right += tally.right;
    total.errors += tally.errors;
  }
  std::printf("%-40s %5d cases: %5d right answers, %5d errors\n", "all (operation, step, fault, policy)",
              total.cases, total.right, total.errors);
}

TEST(FaultCases, SlowAndUnreachableDevicesChangeNoBit) {
  int cases = 0;
  for (const FaultCall& call : fault_calls()) {
    const Bytes expected = clean_run(call).first;
    const bool direct = call.name.find("direct") != std::string::npos;
    std::vector<std::string> scripts;
    for (int d = 0; d < 3; ++d) {
      scripts.push_back("device " + std::to_string(d) + " slow 50");
      for (int e = 0; e < 3; ++e) {
        if (d == e) continue;
        const std::string link = "link " + std::to_string(d) + " " + std::to_string(e);
        scripts.push_back(link + " slow 50");
        if (!direct) scripts.push_back(link + " no-peer");
      }
    }
    for (const std::string& script : scripts) {
      SCOPED_TRACE(call.name + ", " + script);
      Scene scene = fault_scene(1, script);
      EXPECT_TRUE(call.run(scene, OnDeviceFailure::fail).bytes() == expected);
      EXPECT_TRUE(scene.devices().sim_world()->races().empty());
      ++cases;
    }
    if (!direct) continue;
    // What needs peer access says so.
    Scene scene = fault_scene(1, "link 0 2 no-peer");
    try {
      (void)call.run(scene, OnDeviceFailure::fail);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      EXPECT_NE(std::string(error.what()).find("peer"), std::string::npos) << error.what();
    }
  }
  std::printf("%d cases of slow devices, slow links and no peer access\n", cases);
}

/// Changes of the scene: what fails on the way poisons, and build() cures.
TEST(FaultCases, EveryFaultAtEveryStepOfAnUpdatePoisonsUntilBuild) {
  const Batches batch(fault_rows, 3);
  const std::vector<std::pair<std::string, std::function<void(Scene&)>>> updates{
      {"build", [](Scene& scene) { scene.build(); }},
      {"sync",
       [](Scene& scene) {
         move_triangle(scene.model(), 1);
         scene.sync();
       }},
      {"edges", [&](Scene& scene) { scene.require_edges("test"); }},
      {"faces", [&](Scene& scene) { scene.require_face_data("test"); }},
  };
  const auto make = [](std::uint64_t seed) {
    OpenOptions options;
    options.sim_seed = seed;
    Scene scene(open_devices("sim:3", options), moving_model(), SceneOptions{TracerChoice::bvh});
    scene.build();
    return scene;
  };
  const auto ask = [&](Scene& scene) {
    IntersectOptions options;
    options.min_rows_per_device = 0;
    options.fields = IntersectFields::geometric;
    return bytes_of(intersect(scene, batch.rays(), options).get());
  };
  int cases = 0;
  for (const auto& [name, update] : updates) {
    Steps steps;
    Bytes expected;
    {
      Scene scene = make(1);
      scene.devices().sim_world()->set_faults("");
      update(scene);
      for (int d = 0; d < 3; ++d) steps.devices.push_back(scene.devices().sim_world()->fault_steps(d));
      expected = ask(scene);
    }
    for (int device = 0; device < 3; ++device)
      for (const std::string& script : scripts_of(device, steps.devices[static_cast<std::size_t>(device)])) {
        SCOPED_TRACE(name + ", " + script);
        Scene scene = make(static_cast<std::uint64_t>(++cases));
        SimWorld& world = *scene.devices().sim_world();
        world.set_faults(script);
        try {
          update(scene);
          ADD_FAILURE() << "no error";
        } catch (const Error& error) {
          expect_device_error(error);
        }
        EXPECT_TRUE(scene.is_poisoned());
        world.set_faults("");
        try {
          (void)ask(scene);
          ADD_FAILURE() << "a poisoned scene answered";
        } catch (const Error& error) {
          EXPECT_EQ(error.error_class(), ErrorClass::poisoned) << error.what();
        }
        scene.build();
        EXPECT_FALSE(scene.is_poisoned());
        EXPECT_TRUE(ask(scene) == expected);
        EXPECT_TRUE(world.races().empty());
      }
  }
  std::printf("%d cases of updates\n", cases);
}

}  // namespace
}  // namespace shardwise::test
