// Built-in probes: every operation of the table has one, which really calls that operation on so many rows.

#include <gtest/gtest.h>

#include "row_batch.hpp"
#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/rays/calibrate.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::test {
namespace {

class Probes : public ::testing::TestWithParam<const char*> {
 protected:
  Probes() : scene(open_devices(GetParam()), test_model(), SceneOptions{TracerChoice::bvh}) { scene.build(); }
  Scene scene;
};

TEST_P(Probes, EveryOperationHasOne) {
  constexpr std::int64_t rows = 600;
  int tried = 0;
  for (const OperationEntry& entry : operation_table()) {
    const std::string name = *entry.shape ? std::string(entry.family) + ":" + entry.shape : entry.family;
    SCOPED_TRACE(name);
    if (entry.operation_class != OperationClass::rows) {
      EXPECT_THROW((void)operation_probe(scene, name, rows), Error);
      continue;
    }
    ++tried;
    const CalibrationCall call = operation_probe(scene, name, rows);
    RowOptions options;
    options.mode = DispatchMode::sharded;
    options.weights = {1, 2};
    const DispatchReport report = call(options);
    EXPECT_EQ(report.mode, "sharded");
    EXPECT_EQ(report.devices.at(0).lanes, rows / 3);
    EXPECT_EQ(report.devices.at(1).lanes, rows - rows / 3);
    // The operation that was meant, and no optional column: other ones would move other bytes.
    EXPECT_EQ(report.devices[1].bytes_in, static_cast<std::uint64_t>(400 * entry.bytes_in));
    EXPECT_EQ(report.devices[1].bytes_out, static_cast<std::uint64_t>(400 * entry.bytes_out));
  }
  EXPECT_GE(tried, 14);
}

TEST_P(Probes, OtherShapesOfAFamily) {
  RowOptions options;
  options.mode = DispatchMode::sharded;
  options.weights = {0, 1};
  const auto bytes_out = [&](const char* name) {
    return operation_probe(scene, name, 100)(options).devices.at(1).bytes_out;
  };
  EXPECT_EQ(bytes_out("trace_reflections:1"), 100u * 21);
  EXPECT_EQ(bytes_out("trace_reflections:2"), 100u * 42);
  EXPECT_EQ(exact_operation("intersect"), "intersect:full");
  EXPECT_EQ(exact_operation("visible"), "visible");
  EXPECT_EQ(exact_operation("nearest_edges"), "nearest_edges:4");
  EXPECT_EQ(exact_operation("nearest_edges:9"), "nearest_edges:9");
}

TEST_P(Probes, RefusesWhatMeansNothing) {
  const auto refused = [&](const std::string& name, std::int64_t rows, const std::string& part) {
    try {
      (void)operation_probe(scene, name, rows);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused("intersekt", 10, "did you mean 'intersect'?");
  refused("intersect:most", 10, "there are reduced, full");
  refused("visible:7", 10, "write 'visible'");
  refused("nearest_edges:17", 10, "from 1 to 16");
  refused("trace_reflections:x", 10, "trace_reflections:x");
  refused("coverage", 10, "no built-in probe");
  refused("intersect", 0, "0 rows");
}

/// The whole of it, with the probe that is built in.
TEST_P(Probes, CalibrateTheOperation) {
  CalibrateOptions options;
  options.repeats = 3;
  const CalibrationRecord record = calibrate(scene, "trace_reflections:2", 5000, options);
  EXPECT_EQ(record.operation, "trace_reflections:2");
  EXPECT_EQ(record.rows, 5000);
  ASSERT_EQ(record.weights.size(), 2u);
  for (const DeviceRowCost& cost : record.costs) EXPECT_GT(cost.compute_s, 0);
  for (const CalibrationTrial& trial : record.trials) {
    EXPECT_EQ(trial.seconds.size(), 3u);
    EXPECT_GT(trial.predicted_s, 0) << trial.name;
  }
}

INSTANTIATE_TEST_SUITE_P(On, Probes, ::testing::Values("sim:2", "host:2x1"),
                         [](const auto& info) { return info.index == 0 ? "Sim" : "Host"; });

}  // namespace
}  // namespace shardwise::test
