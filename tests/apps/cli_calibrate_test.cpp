// shardwise calibrate, --calibration, and the benchmarks of both, as users run them.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;

class Calibrate : public ProgramTest {
 protected:
  /// Two simulated devices, the second of which takes three times as long.
  std::string slow_devices() const {
    write("slow.toml",
          "schema = 1\n[[devices]]\n[[devices]]\nspeed = 0.3333333333\n"
          "[[links]]\nfrom = \"any\"\nto = \"any\"\ngb_s = 50\nus = 2\n"
          "[ns_per_item]\ndefault = 500\n");
    return "sim:" + path("slow.toml");
  }
  std::vector<std::string> map(const std::string& devices, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"coverage", box_scene(), "--tx",      "0,0,30", "--samples", "20k",
                                       "--passes", "2",         "--devices", devices,  "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::vector<std::string> calibrate(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "calibrate");
    return arguments;
  }
};

const Json& trial(const Json& record, const std::string& name) {
  for (const Json& one : record.at("trials"))
    if (one.at("name") == name) return one;
  throw std::runtime_error("no trial " + name);
}

/// What the fit says of the slow device is what the calls show, and what the split is made of.
TEST_F(Calibrate, AMapOnASlowDeviceFromTheFirstCallToTheLast) {
  const std::string devices = slow_devices();
  const Outcome found = run(calibrate(map(devices, {"-o", path("shares.json"), "--repeats", "5"})));
  ASSERT_EQ(found.code, 0) << found.err;
  for (const char* part : {"coverage, 20000 rays a call: fastest with shares fitted to these costs, 1.",
                           "measured costs of one ray, and the share of the rays that each device gets:",
                           "share  75.", "computing 5", "besides, a call takes ",
                           "tried 5 times each, in turns:", "sim:0 alone ", "equal shares ", "predicted ",
                           " times as fast as sim:0 alone (", "shares.json' splits maps like this one so\n"})
    EXPECT_NE(found.out.find(part), std::string::npos) << "'" << part << "' is not in: " << found.out;

  const Json file = Json::parse(read("shares.json"));
  EXPECT_EQ(file.at("schema"), 2);
  const Json& record = file.at("operations").at(0);
  EXPECT_EQ(record.at("operation"), "coverage");
  EXPECT_EQ(record.at("rows"), 20000);
  EXPECT_EQ(record.at("near_crossover"), false);
  for (const char* name : {"master", "fitted", "equal"}) {
    EXPECT_EQ(trial(record, name).at("seconds").size(), 5u) << name;
    EXPECT_GT(trial(record, name).at("predicted_s").get<double>(), 0) << name;
  }
  const double share = record.at("weights").at(0).get<double>() / record.at("weights").at(1).get<double>();
  EXPECT_NEAR(share, 3, 0.15);
  // It beats the equal split by as much as the fit says.
  const auto ratio = [&](const char* key) {
    return trial(record, "equal").at(key).get<double>() / trial(record, "fitted").at(key).get<double>();
  };
  EXPECT_GT(ratio("median_s"), 1.6);
  EXPECT_NEAR(ratio("median_s"), ratio("predicted_s"), 0.1 * ratio("predicted_s"));

  // The map is the same, split as calibrated, without a floor.
  const Outcome plain = run(map(devices, {"--json", path("plain.json")}));
  const Outcome split =
      run(map(devices, {"--calibration", path("shares.json"), "--json", path("split.json")}));
  ASSERT_EQ(split.code, 0) << split.err;
  const Json before = Json::parse(read("plain.json")), after = Json::parse(read("split.json"));
  EXPECT_EQ(before.at("dispatch").at("mode"), "master");
  EXPECT_EQ(after.at("dispatch").at("mode"), "sharded");
  EXPECT_EQ(before.at("grid").at("digest"), after.at("grid").at("digest"));
  const double lanes = after.at("devices").at(0).at("lanes").get<double>();
  EXPECT_NEAR(lanes / after.at("devices").at(1).at("lanes").get<double>(), share, 0.01);

  // A plan takes it, too; a call of another size is told.
  std::vector<std::string> planned = map(devices, {"--calibration", path("shares.json"), "--json", "-"});
  planned.insert(planned.begin(), "plan");
  const Outcome plan = run(planned);
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(Json::parse(plan.out).at("dispatch").at("weights"), after.at("dispatch").at("weights"));
  std::vector<std::string> small = map(devices, {"--calibration", path("shares.json"), "--json", "-"});
  *std::find(small.begin(), small.end(), "20k") = "4k";
  const Outcome fewer = run(small);
  ASSERT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_EQ(Json::parse(fewer.out).at("dispatch").at("mode"), "master");
  EXPECT_NE(Json::parse(fewer.out).at("warnings").dump().find("was calibrated with 20000 rows"),
            std::string::npos);
}

TEST_F(Calibrate, OperationsOnRowsShareAFile) {
  const std::string devices = slow_devices();
  const std::vector<std::string> common{"--rows", "20k", "--devices", devices, "-o", path("shares.json")};
  for (const char* operation : {"intersect", "nearest_edges:2", "intersect:full"}) {
    std::vector<std::string> arguments{operation, box_scene()};
    arguments.insert(arguments.end(), common.begin(), common.end());
    arguments.insert(arguments.end(), {"--repeats", "3", "--warm-up", "0", "--probes", "3", "--json", "-"});
    const Outcome outcome = run(calibrate(arguments));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out).at("operations").size(), 1u);
  }
  const Json file = Json::parse(read("shares.json"));
  ASSERT_EQ(file.at("operations").size(), 2u);
  EXPECT_EQ(file.at("operations").at(0).at("operation"), "nearest_edges:2");
  EXPECT_EQ(file.at("operations").at(1).at("operation"), "intersect:full");
  // A map finds nothing of its own there.
  expect_one_line_error(run(map(devices, {"--calibration", path("shares.json")})), 2,
                        "no weights of coverage (it has nearest_edges:2, intersect:full); add them with "
                        "'shardwise calibrate coverage'");
}

TEST_F(Calibrate, RecordsOfOtherDevicesAndBuildsAreRefused) {
  const std::string devices = slow_devices();
  ASSERT_EQ(run(calibrate(map(devices, {"-o", path("s.json"), "--repeats", "3"}))).code, 0);
  expect_one_line_error(run(map("sim:3", {"--calibration", path("s.json")})), 2,
                        "made with other devices (sim:0");
  expect_one_line_error(run(map("host:2x1", {"--calibration", path("s.json")})), 2, "calibrate again");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = read("s.json");
    text.replace(text.find(from), from.size(), to);
    write("other.json", text);
    return map(devices, {"--calibration", path("other.json")});
  };
  expect_one_line_error(run(changed("\"build\": \"0", "\"build\": \"9")), 2, "made by another build (9");
  expect_one_line_error(run(changed("\"schema\": 2", "\"schema\": 7")), 3, "has schema 7");
  Json file = Json::parse(read("s.json"));
  const auto with_weights = [&](const Json& weights) {
    file["operations"][0]["weights"] = weights;
    write("other.json", file.dump());
    return map(devices, {"--calibration", path("other.json")});
  };
  expect_one_line_error(run(with_weights({1, 1, 1})), 3, "3 weights of 'coverage' for 2 devices");
  expect_one_line_error(run(with_weights({-1, 1})), 3, "'coverage': ");
  expect_one_line_error(run(with_weights({"a", 1})), 3, "is damaged");
  file = Json::parse(read("s.json"));
  const auto with = [&](const char* key, const Json& value) {
    Json other = file;
    (other.contains(key) ? other : other["operations"][0])[key] = value;
    write("other.json", other.dump());
    return map(devices, {"--calibration", path("other.json")});
  };
  expect_one_line_error(run(with("rows", 0)), 3,
                        "'rows' of 'coverage' is 0, not at least 1; calibrate again");
  expect_one_line_error(run(with("rows", 1e300)), 3, "'rows' is 1e+300, no whole number");
  expect_one_line_error(run(with("schema", 2.5)), 3, "'schema' is 2.5, no whole number");
  expect_one_line_error(run(with("operations", {file["operations"][0], file["operations"][0]})), 3,
                        "has 'coverage' twice");
  expect_one_line_error(run(changed("{", "")), 3, "is damaged");
  expect_one_line_error(run(map(devices, {"--calibration", path("none.json")})), 3, "cannot be read");
  // Calibrating again mends the file, and says what it replaces.
  const Outcome again = run(calibrate(map(devices, {"-o", path("other.json"), "--repeats", "3"})));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("is damaged"), std::string::npos) << again.err;
  EXPECT_EQ(run(map(devices, {"--calibration", path("other.json")})).code, 0);
}

/// What is left after a device has failed is another set: nothing is kept of it.
TEST_F(Calibrate, ADeviceThatFailsEndsIt) {
  for (const char* policy : {"fail", "failover"}) {
    const Outcome failed =
        run(calibrate(map(slow_devices(), {"-o", path("s.json"), "--sim-faults", "device 1 launch 9 lost",
                                           "--on-device-failure", policy})));
    EXPECT_EQ(failed.code, 1) << failed.out;
    EXPECT_NE(failed.err.find("the device is lost"), std::string::npos) << failed.err;
    EXPECT_EQ(failed.out, "");
    EXPECT_FALSE(exists("s.json"));
  }
}

TEST_F(Calibrate, BenchScalingNamesItsMachines) {
  for (const char* devices : {"sim:8xh200", "sim:3", "sim:lab.toml", "sim:h100", "sim:", "host:2"})
    expect_one_line_error(run({"bench", "scaling", "--devices", devices}), 2,
                          "--devices '" + std::string(devices) +
                              "' names no machine that it can give 1 to 64 devices; write sim:h200 or "
                              "sim:h200-pcie, without a number");
  const Outcome outcome =
      run({"bench", "scaling", "--devices", "sim:h200-pcie", "--quick", "--only", "coverage-2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("sim:2xh200-pcie"), std::string::npos) << outcome.out;
}

TEST_F(Calibrate, BadInput) {
  const std::string devices = slow_devices(), scene = box_scene();
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& part) {
    SCOPED_TRACE(part);
    expect_one_line_error(run(calibrate(arguments)), code, part);
  };
  refused({}, 2, "needs an operation and a scene; there are coverage, intersect");
  refused({"intersct", scene}, 2, "did you mean 'intersect'?");
  refused({"intersect"}, 2, "no scene");
  refused({"intersect", scene, "--rows", "1"}, 2, "--rows");
  refused({"intersect", scene, "--repeats", "2"}, 2, "--repeats");
  refused({"intersect", scene, "--probes", "0"}, 2, "--probes");
  refused({"intersect:some", scene, "--devices", "sim:2"}, 2, "there are reduced, full");
  refused({"intersect", path("none.xml"), "--devices", "sim:2"}, 3, "none.xml");
  refused({"intersect", scene, "-o", path("no/file")}, 2, "does not exist");
  refused({"intersect", scene, "-o", path("f"), "--json", path("f")}, 2, "same file");
  refused({"intersect", scene, "-o", "-"}, 2, "standard output");
  refused({"intersect", scene, "--weights", "1,2"}, 2, "unknown option '--weights'");
  refused(map(devices, {"--weights", "1,2"}), 2, "--weights '1,2' is what calibrating finds");
  refused(map(devices, {"--min-rows", "5"}), 2, "--min-rows");
  refused(map(devices, {"--calibration", "x"}), 2, "name it with -o");
  for (const char* option : {"--png", "--map", "--checkpoint", "--trace"})
    refused(map(devices, {option, path("x")}), 2, std::string("coverage: ") + option);
  refused(map(devices, {"--verify"}), 2, "--verify");
  refused({"coverage"}, 2, "needs a scene");
  expect_one_line_error(run(map(devices, {"--calibration", path("x"), "--weights", "1,1"})), 2, "give one");
}

/// Every row is predicted and measured, and the last one has the summary; on virtual clocks the model is
/// right.
TEST_F(Calibrate, BenchPredictsCalls) {
  for (const char* devices : {"sim:2xh200", "host:2x1", "sim:2xh200-pcie", "sim:1xh200"}) {
    SCOPED_TRACE(devices);
    const bool sim = std::string(devices).starts_with("sim");
    const Outcome outcome =
        run({"bench", "predict", "--devices", devices, "--quick", "--repeat", "2", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json rows = Json::parse(outcome.out).at("rows");
    EXPECT_EQ(rows.size(), std::string(devices) == "sim:1xh200" ? 7u : 32u);
    for (const Json& row : rows) {
      EXPECT_NE(row.at("work").get<std::string>().find("error "), std::string::npos) << row;
      if (sim) {
        EXPECT_NEAR(row.at("share_of_limit").get<double>(), 1, 0.15) << row;
      }
    }
    const auto last = rows.back().at("work").get<std::string>();
    EXPECT_NE(last.find("ALL " + std::to_string(rows.size()) + " ROWS: median error"), std::string::npos)
        << last;
  }
}

TEST_F(Calibrate, BenchCalibratesAgainAndAgain) {
  for (const std::string& devices : {slow_devices(), std::string("host:2x1")}) {
    SCOPED_TRACE(devices);
    const Outcome outcome =
        run({"bench", "calibrate", "--devices", devices, "--quick", "--repeat", "2", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json rows = Json::parse(outcome.out).at("rows");
    ASSERT_EQ(rows.size(), 6u);
    for (const Json& row : rows) {
      const auto work = row.at("work").get<std::string>();
      EXPECT_NE(work.find("2 calibrations:"), std::string::npos) << work;
      if (!devices.starts_with("sim")) continue;
      EXPECT_EQ(row.at("mode"), "fitted");
      const auto number_after = [&](const std::string& text) {
        return std::stod(work.substr(work.find(text) + text.size()));
      };
      EXPECT_GE(number_after("least "), 1.3) << work;
      EXPECT_GE(number_after("over the equal split: predicted "), 1.5) << work;
      EXPECT_GE(number_after(", measured "), 1.5) << work;
      EXPECT_LE(std::abs(number_after(", apart ")), 2) << work;
      EXPECT_LE(number_after(", at most "), 2) << work;
    }
  }
}

}  // namespace
}  // namespace shardwise::test
