// Calibration on simulated devices, where times are exact: the fit finds the devices' speeds, the test keeps
// a split only where it wins, files are for their devices alone.

#include "shardwise/dispatch/calibrate.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <sstream>

#include "row_batch.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::test {
namespace {

Scene scene_on(std::vector<double> speeds, double ns_per_item) {
  OpenOptions options;
  options.sim_speeds = std::move(speeds);
  options.sim_costs.ns_per_item = ns_per_item;
  const std::size_t count = options.sim_speeds.size();
  Scene scene(open_devices("sim:" + std::to_string(count), options), test_model(),
              SceneOptions{TracerChoice::bvh});
  scene.build();
  return scene;
}

CalibrationCall call_of(Scene& scene, const Batches& batch, int& calls) {
  return [&](const RowOptions& row_options) {
    ++calls;
    IntersectOptions options;
    static_cast<RowOptions&>(options) = row_options;
    options.fields = IntersectFields::none;
    return intersect(scene, batch.rays(), options).get().dispatch;
  };
}

const CalibrationTrial& trial(const CalibrationRecord& record, const std::string& name) {
  for (const CalibrationTrial& trial : record.trials)
    if (trial.name == name) return trial;
  throw Error(ErrorClass::internal, "no trial " + name);
}

TEST(Calibrate, ASlowDeviceGetsWhatItCanDo) {
  for (const auto& speeds : {std::vector{1.0, 1.0 / 3}, std::vector{1.0, 0.2}, std::vector{0.5, 1.0, 0.25}}) {
    Scene scene = scene_on(speeds, 2000);
    const Batches batch(12000, 5);
    int calls = 0;
    const CalibrationRecord record =
        calibrate(scene.devices(), "intersect", batch.rows(), call_of(scene, batch, calls));
    SCOPED_TRACE(record.describe());
    EXPECT_EQ(record.chosen, "fitted");
    EXPECT_FALSE(record.near_crossover);
    const double sum = std::accumulate(record.weights.begin(), record.weights.end(), 0.0);
    const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
    for (std::size_t d = 0; d < speeds.size(); ++d) {
      EXPECT_NEAR(record.costs[d].compute_s, 2000e-9 / speeds[d], 0.05 * 2000e-9 / speeds[d]);
      EXPECT_NEAR(record.weights[d] / sum, speeds[d] / all, 0.02);
    }
    // They beat the equal split by the amount that the model says.
    const CalibrationTrial &fitted = trial(record, "fitted"), &equal = trial(record, "equal");
    const double said = equal.predicted_s / fitted.predicted_s, found = equal.median_s / fitted.median_s;
    EXPECT_GT(found, 1.2);
    EXPECT_NEAR(found, said, 0.1 * said);
    EXPECT_NEAR(fitted.median_s, fitted.predicted_s, 0.1 * fitted.predicted_s);
    EXPECT_NE(record.describe().find("fitted"), std::string::npos);
    EXPECT_GT(calls, 30);
  }
}

TEST(Calibrate, ASplitThatDoesNotWinIsNotKept) {
  // Rows so light that their way costs more than they do.
  Scene scene = scene_on({1, 1}, 0.5);
  const Batches batch(3000, 5);
  int calls = 0;
  const CalibrationRecord record =
      calibrate(scene.devices(), "intersect", batch.rows(), call_of(scene, batch, calls));
  SCOPED_TRACE(record.describe());
  EXPECT_EQ(record.chosen, "master");
  EXPECT_EQ(record.weights, (std::vector<double>{1, 0}));
}

/// From light rows to heavy ones: whatever is chosen is never slower than the first device alone, nor than
/// the equal split.
TEST(Calibrate, NeverLoses) {
  int sharded = 0, alone = 0;
  const Batches batch(4000, 5);
  for (double ns = 0.1; ns < 600; ns *= 1.6) {
    Scene scene = scene_on({1, 0.9}, ns);
    int calls = 0;
    const CalibrationRecord record =
        calibrate(scene.devices(), "intersect", batch.rows(), call_of(scene, batch, calls));
    SCOPED_TRACE(record.describe());
    const double chosen = trial(record, record.chosen).median_s;
    EXPECT_LE(chosen, trial(record, "master").median_s / 0.98);
    EXPECT_LE(chosen, trial(record, "equal").median_s / 0.98);
    (record.chosen == "master" ? alone : sharded) += 1;
    const double gain = trial(record, "fitted").gain;
    if (record.near_crossover) {
      EXPECT_LT(gain, 1.05);
    }
  }
  EXPECT_GT(sharded, 3);
  EXPECT_GT(alone, 3);
}

TEST(Calibrate, FilesAreForTheirDevicesAndBuild) {
  Scene scene = scene_on({1, 0.5}, 2000);
  const Batches batch(4000, 5);
  int calls = 0;
  const CalibrationRecord record =
      calibrate(scene.devices(), "intersect", batch.rows(), call_of(scene, batch, calls));
  const std::string path = ::testing::TempDir() + "/calibration.json";
  save_calibration(path, scene.devices(), {record});
  const OperationWeights weights = load_calibration(path, scene.devices());
  EXPECT_EQ(weights.at("intersect"), record.weights);
  // It is what a call is split by.
  IntersectOptions options;
  options.min_rows_per_device = 0;
  options.operation_weights = weights;
  options.plan_only = true;
  const DispatchReport plan = intersect(scene, batch.rays(), options).get().dispatch;
  EXPECT_EQ(plan.weights, record.weights);

  const auto refused = [&](const std::string& file, const DeviceSet& devices, ErrorClass expected,
                           const std::string& part) {
    try {
      (void)load_calibration(file, devices);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), expected) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused(path, open_devices("sim:3"), ErrorClass::usage, "other devices");
  refused(path, open_devices("host:2x1"), ErrorClass::usage, "other devices");
  refused(path + ".no", scene.devices(), ErrorClass::data, "cannot be read");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text.str();
    other.replace(other.find(from), from.size(), to);
    std::ofstream(path + ".other") << other;
    return path + ".other";
  };
  refused(changed("\"schema\": 2", "\"schema\": 3"), scene.devices(), ErrorClass::data, "schema 3");
  refused(changed("\"build\": \"0", "\"build\": \"9"), scene.devices(), ErrorClass::usage, "another build");
  refused(changed("{", "["), scene.devices(), ErrorClass::data, "damaged");
}

TEST(Calibrate, RefusesWhatMeansNothing) {
  Scene scene = scene_on({1, 1}, 100);
  const Batches batch(100, 5);
  int calls = 0;
  const CalibrationCall call = call_of(scene, batch, calls);
  EXPECT_THROW((void)calibrate(scene.devices(), "intersekt", 100, call), Error);
  EXPECT_THROW((void)calibrate(scene.devices(), "intersect", 3, call), Error);
  EXPECT_THROW((void)calibrate(scene.devices(), "intersect", 100, {}), Error);
  CalibrateOptions options;
  options.repeats = 2;
  EXPECT_THROW((void)calibrate(scene.devices(), "intersect", 100, call, options), Error);
  EXPECT_EQ(calls, 0);
  // A call that came through without one of the devices tells nothing of all.
  const CalibrationCall survived = [&](const RowOptions& how) {
    DispatchReport report = call(how);
    if (calls == 3) report.failures.push_back({"sim:1", "sim:1: lost", 50});
    return report;
  };
  EXPECT_THROW((void)calibrate(scene.devices(), "intersect", 100, survived), Error);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace shardwise::test
