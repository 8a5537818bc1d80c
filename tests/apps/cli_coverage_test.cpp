// shardwise coverage: report, maps, picture, splits.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;

class CliCoverage : public ProgramTest {
 protected:
  Json report_of(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = coverage(more);
    arguments.insert(arguments.end(), {"--json", "-"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(outcome.out) : Json();
  }

  template <class T>
  std::vector<T> npy(const std::string& name, const std::string& type, int rows, int columns) const {
    const std::string bytes = read(name);
    EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const std::size_t header =
        static_cast<unsigned char>(bytes.at(8)) + 256u * static_cast<unsigned char>(bytes.at(9));
    EXPECT_EQ((10 + header) % 64, 0u);
    const std::string text = bytes.substr(10, header);
    EXPECT_EQ(text.back(), '\n');
    const std::string expected = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" +
                                 std::to_string(rows) + ", " + std::to_string(columns) + "), }";
    EXPECT_EQ(text.substr(0, expected.size()), expected);
    std::vector<T> values((bytes.size() - 10 - header) / sizeof(T));
    std::memcpy(values.data(), bytes.data() + 10 + header, values.size() * sizeof(T));
    EXPECT_EQ(values.size(), static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    return values;
  }
};

TEST_F(CliCoverage, ReportHasEveryKeyWithItsType) {
  const Json report = report_of({});
  // n number, i integer, s string, a array, b boolean, 0 null allowed
  const std::map<std::string, std::map<std::string, char>> keys{
      {"scene",
       {{"triangles", 'i'}, {"shapes", 'i'}, {"materials", 'i'}, {"defects", 'i'}, {"origin_shift", 'a'}}},
      {"model", {{"mechanisms", 'a'}, {"antenna", 's'}, {"walls", 's'}, {"polarization", 's'}}},
      {"dispatch",
       {{"mode", 's'},
        {"reason", 's'},
        {"weights", 'a'},
        {"source", 's'},
        {"row_bytes", 'i'},
        {"budget_bytes", 'i'},
        {"fixed_bytes", 'i'},
        {"resident_chunks", 'i'},
        {"chunk_rows", 'i'},
        {"chunk_count", 'i'},
        {"measured_row_bytes", 'n'}}},
      {"cells", {{"open", 'i'}, {"los", 'i'}, {"reached", 'i'}, {"under_16", 'i'}}},
      {"grid",
       {{"width", 'i'},
        {"height", 'i'},
        {"cell_m", 'n'},
        {"origin", 'a'},
        {"covered_fraction", 'n'},
        {"max_gain_db", 'n'},
        {"median_gain_db", 'n'},
        {"digest", 's'},
        {"stderr_digest", 's'}}},
      {"verify", {{"ran", 'b'}, {"equal", '0'}, {"max_relative", '0'}}},
      {"",
       {{"schema", 'i'},
        {"command", 's'},
        {"version", 's'},
        {"transmitters", 'a'},
        {"frequency_hz", 'n'},
        {"devices", 'a'},
        {"lanes", 'i'},
        {"segments_traced", 'i'},
        {"seconds", 'n'},
        {"segments_per_second", 'n'},
        {"accumulation", 's'},
        {"warnings", 'a'}}}};
  const auto check = [](const Json& object, const std::string& key, char type) {
    ASSERT_TRUE(object.contains(key)) << key;
    const Json& value = object[key];
    const bool good = type == 'n'   ? value.is_number()
                      : type == 'i' ? value.is_number_integer()
                      : type == 's' ? value.is_string()
                      : type == 'a' ? value.is_array()
                      : type == 'b' ? value.is_boolean()
                                    : value.is_null();
    EXPECT_TRUE(good) << key << " is " << value.dump();
  };
  std::size_t count = keys.at("").size();
  for (const auto& [group, members] : keys) {
    const Json& object = group.empty() ? report : report[group];
    if (!group.empty()) {
      ++count;
      EXPECT_EQ(object.size(), members.size()) << group;
    }
    for (const auto& [key, type] : members) check(object, key, type);
  }
  EXPECT_EQ(report.size(), count) << "keys that the contract does not name";
  ASSERT_EQ(report["devices"].size(), 1u);
  for (const auto& [key, type] : std::map<std::string, char>{{"name", 's'},
                                                             {"kind", 's'},
                                                             {"lanes", 'i'},
                                                             {"busy_s", 'n'},
                                                             {"idle_s", 'n'},
                                                             {"bytes_in", 'i'},
                                                             {"bytes_out", 'i'},
                                                             {"peak_bytes", 'i'}}) {
    check(report["devices"][0], key, type);
  }
  EXPECT_EQ(report["lanes"], 40000);
  EXPECT_EQ(report["grid"]["width"], 25);
  EXPECT_EQ(report["grid"]["height"], 20);
  EXPECT_EQ(report["grid"]["digest"].get<std::string>().size(), 64u);
  EXPECT_GE(report["segments_traced"].get<std::int64_t>(), 40000);
  // Under the box (x 10 to 30, y 11 to 29) lie the centres x = 12, 16, .. 28 and y = 14, 18, 22, 26.
  EXPECT_EQ(report["cells"]["open"], 500 - 5 * 4);
}

TEST_F(CliCoverage, OnePassHasNoErrorMap) {
  const Json report = report_of({"--passes", "1"});
  EXPECT_TRUE(report["grid"]["stderr_digest"].is_null());
}

TEST_F(CliCoverage, MapsAreWhole) {
  const Json report =
      report_of({"--map", path("m.npy"), "--error-map", path("e.npy"), "--count-map", path("c.npy")});
  const auto gain = npy<double>("m.npy", "<f8", 20, 25);
  const auto error = npy<double>("e.npy", "<f8", 20, 25);
  const auto count = npy<std::int64_t>("c.npy", "<i8", 20, 25);
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < gain.size(); ++i) {
    EXPECT_EQ(gain[i] > 0, count[i] > 0) << i;
    EXPECT_GE(error[i], 0);
    reached += count[i] > 0;
  }
  EXPECT_EQ(reached, report["cells"]["reached"].get<std::int64_t>());
  // Row 0 is the smallest y: the brightest cell is under the transmitter at (-10, 0), row 9 or 10, column 9
  // or 10.
  const auto best = static_cast<std::size_t>(std::max_element(gain.begin(), gain.end()) - gain.begin());
  EXPECT_NEAR(static_cast<double>(best / 25), 9.5, 2);
  EXPECT_NEAR(static_cast<double>(best % 25), 9.5, 2);
}

TEST_F(CliCoverage, EverySplitGivesOneDigest) {
  const Json reference = report_of({"--min-rows", "0"});
  const std::vector<std::pair<std::string, std::vector<std::string>>> splits{
      {"host:2x1", {}},
      {"host:3x1", {"--weights", "5,1,0"}},
      {"host:2x1", {"--chunk", "3k"}},
      {"sim:3", {}},
      {"host:1x2", {}}};
  for (const auto& [devices, more] : splits) {
    std::vector<std::string> arguments = coverage(more);
    const auto place = std::find(arguments.begin(), arguments.end(), "host:1x1");
    *place = devices;
    arguments.insert(arguments.end(), {"--min-rows", "0", "--json", "-"});
    const Outcome outcome = run(arguments);
    ASSERT_EQ(outcome.code, 0) << devices << ": " << outcome.err;
    const Json report = Json::parse(outcome.out);
    EXPECT_EQ(report["grid"]["digest"], reference["grid"]["digest"]) << devices;
    EXPECT_EQ(report["grid"]["stderr_digest"], reference["grid"]["stderr_digest"]) << devices;
    std::int64_t lanes = 0;
    for (const Json& device : report["devices"]) lanes += device["lanes"].get<std::int64_t>();
    EXPECT_EQ(lanes, 40000);
    for (std::size_t i = 0; i < report["devices"].size(); ++i) {
      const bool idle = more.size() == 2 && more[1] == "5,1,0" && i == 2;
      EXPECT_EQ(report["devices"][i]["lanes"].get<std::int64_t>() > 0, !idle) << devices << " device " << i;
    }
  }
  EXPECT_NE(report_of({"--seed", "2"})["grid"]["digest"], reference["grid"]["digest"]);
}

TEST_F(CliCoverage, VerifyComparesWithOneDevice) {
  std::vector<std::string> arguments = coverage({"--verify", "--min-rows", "0", "--json", "-"});
  *std::find(arguments.begin(), arguments.end(), "host:1x1") = "host:2x1";
  const Outcome outcome = run(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json verify = Json::parse(outcome.out)["verify"];
  EXPECT_EQ(verify["ran"], true);
  EXPECT_EQ(verify["equal"], true);
  EXPECT_EQ(verify["max_relative"], 0.0);
}

TEST_F(CliCoverage, DryRunPlansAndWritesNoMap) {
  const Outcome outcome =
      run(coverage({"--dry-run", "--samples=40G", "--map", path("m.npy"), "--json", "-"}));
  // --samples twice is a usage error: the plan is asked for with one.
  EXPECT_EQ(outcome.code, 2);
  const Outcome plan = run(coverage({"--dry-run", "--map", path("m.npy"), "--json", "-"}));
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json report = Json::parse(plan.out);
  EXPECT_EQ(report["lanes"], 40000);
  EXPECT_GT(report["devices"][0]["peak_bytes"].get<std::int64_t>(), 500 * 8);
  EXPECT_GE(report["dispatch"]["chunk_count"].get<std::int64_t>(), 1);
  EXPECT_FALSE(exists("m.npy"));
  const std::string text = run(coverage({"--dry-run"})).out;
  for (const char* part :
       {"plan of a coverage map, nothing was run: line of sight + 3 reflections in ",
        "40k rays (\"lanes\") in all, each followed for at most 4 straight segments\n", "computes everything",
        " launch", "estimated time: ", "a ray of coverage takes one host thread",
        "To compute the map, run 'shardwise coverage' with the same options"})
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

TEST_F(CliCoverage, PlansEstimateTimeAndWhatLimitsEachDevice) {
  std::vector<std::string> arguments = coverage({"--json", "-", "--devices=sim:4xh200", "--min-rows", "0"});
  const auto own = std::find(arguments.begin(), arguments.end(), "--devices");
  if (own != arguments.end()) arguments.erase(own, own + 2);
  std::vector<std::string> planned = arguments;
  planned.insert(planned.begin(), "plan");
  const Outcome plan = run(planned);
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Json report = Json::parse(plan.out);
  ASSERT_EQ(report["devices"].size(), 4u);
  // What a lane costs is the machine's, not the scene's.
  ASSERT_EQ(report["estimate"]["assumptions"].size(), 1u);
  EXPECT_NE(report["estimate"]["assumptions"][0].get<std::string>().find("a ray of coverage takes"),
            std::string::npos);
  const double seconds = report["estimate"]["seconds"];
  EXPECT_GT(seconds, 0);
  for (const Json& device : report["devices"]) {
    EXPECT_FALSE(device["bottleneck"].get<std::string>().empty());
    EXPECT_GT(device["bytes_in"].get<double>() + device["bytes_out"].get<double>(), 0);
    const double parts = device["busy_s"].get<double>() + device["transferring_s"].get<double>() +
                         device["idle_s"].get<double>();
    EXPECT_NEAR(parts, seconds, 1e-3 * seconds);
  }
  // The real run on the same machine moves the same bytes.
  const Outcome real = run(arguments);
  ASSERT_EQ(real.code, 0) << real.err;
  const Json done = Json::parse(real.out);
  for (std::size_t d = 0; d < 4; ++d)
    EXPECT_EQ(done["devices"][d]["bytes_out"], report["devices"][d]["bytes_out"]) << d;
  // Of real devices the assumptions are told.
  std::vector<std::string> host = coverage({"--json", "-", "--dry-run"});
  EXPECT_FALSE(Json::parse(run(host).out)["estimate"]["assumptions"].empty());
  EXPECT_EQ(run({"plan"}).code, 2);
}

TEST_F(CliCoverage, AFailingDeviceEndsTheRunOrIsDoneWithout) {
  std::vector<std::string> arguments = coverage({"--json", "-", "--min-rows", "0"});
  const auto own = std::find(arguments.begin(), arguments.end(), "--devices");
  if (own != arguments.end()) arguments.erase(own, own + 2);
  const auto on = [&](std::vector<std::string> more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const Outcome whole = on({"--devices=sim:3"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::string script = "--sim-faults=device 1 launch 4 lost";
  const Outcome failed = on({"--devices=sim:3", script});
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.err.find("sim:1"), std::string::npos) << failed.err;
  EXPECT_EQ(failed.out, "");
  const std::string way_on = "; with --on-device-failure failover the other devices do its work\n";
  EXPECT_TRUE(failed.err.ends_with(way_on)) << failed.err;
  // Not where it would not help: the first device, sums of another kind.
  for (const auto& more : {std::vector<std::string>{"--sim-faults=device 0 launch 4 lost"},
                           {script, "--accumulation=fast"},
                           {script, "--accumulation=fast", "--on-device-failure=failover"}}) {
    std::vector<std::string> all{"--devices=sim:3"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome hopeless = on(all);
    EXPECT_EQ(hopeless.code, 1);
    EXPECT_EQ(hopeless.err.find("failover"), std::string::npos) << hopeless.err;
  }
  const Outcome survived = on({"--devices=sim:3", script, "--on-device-failure=failover"});
  ASSERT_EQ(survived.code, 0) << survived.err;
  EXPECT_NE(survived.err.find("sim:1"), std::string::npos) << survived.err;
  const Json one = Json::parse(whole.out), other = Json::parse(survived.out);
  EXPECT_EQ(one["grid"]["digest"], other["grid"]["digest"]);
  ASSERT_EQ(other["dispatch"]["failures"].size(), 1u);
  EXPECT_EQ(other["dispatch"]["failures"][0]["device"], "sim:1");
  EXPECT_EQ(one["dispatch"].count("failures"), 0u);
  const Outcome file = on({"--devices=sim:3", "--sim-faults=@" + path("nowhere.txt")});
  EXPECT_EQ(file.code, 3);
  write("faults.txt", "# two lines\ndevice 1 launch 4 losst\n");
  expect_one_line_error(on({"--devices=sim:3", "--sim-faults=@" + path("faults.txt")}), 2,
                        "faults.txt': line 2: 'losst' is not");
}

/// A script that nothing met proves nothing, and is told.
TEST_F(CliCoverage, FaultsThatNeverHappenAreToldOf) {
  std::vector<std::string> arguments =
      coverage({"--min-rows=0", "--json=-", "--devices=sim:2", "--sim-faults"});
  const auto own = std::find(arguments.begin(), arguments.end(), "--devices");
  if (own != arguments.end()) arguments.erase(own, own + 2);
  const auto warnings = [&](const std::string& script) {
    std::vector<std::string> all = arguments;
    all.push_back(script);
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string said;
    const Json report = Json::parse(outcome.out, nullptr, false);
    for (const Json& warning : report.value("warnings", Json::array()))
      if (const auto text = warning.get<std::string>(); text.starts_with("--sim-faults: "))
        said += text + "\n";
    return said;
  };
  EXPECT_EQ(warnings("device 1 slow 2; link 0 1 no-peer; random 1 0; deadline 5"), "");
  const std::string said =
      warnings("device 1 launch 999 fails; device * copy 1 of \"no such copy\" lost; device 0 slow 3");
  EXPECT_NE(said.find("'device 1 launch 999 fails' never happened: sim:1 made "), std::string::npos) << said;
  EXPECT_NE(said.find("'device * copy 1 of \"no such copy\" lost' never happened\n"), std::string::npos)
      << said;
  EXPECT_EQ(said.find("slow"), std::string::npos) << said;
  arguments.insert(arguments.begin() + 1, "--on-device-failure=failover");
  EXPECT_EQ(warnings("device 1 launch 4 lost"), "");  // it did happen
}

TEST_F(CliCoverage, PictureTraceAndWorldFile) {
  const Outcome outcome =
      run(coverage({"--png", path("m.png"), "--trace", path("t.json"), "--json", path("r.json")}));
  if (outcome.code == 2 && outcome.err.find("no pictures") != std::string::npos) {
    GTEST_SKIP() << "this build has no pictures";
  }
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("digest"), std::string::npos);
  EXPECT_EQ(read("m.png").substr(1, 3), "PNG");
  EXPECT_GT(read("m.png").size(), 5000u);
  std::istringstream world(read("m.pgw"));
  double a = 0, d = 0, b = 0, e = 0, x = 0, y = 0;
  ASSERT_TRUE(world >> a >> d >> b >> e >> x >> y);
  EXPECT_GT(a, 0);
  EXPECT_EQ(d, 0);
  EXPECT_EQ(b, 0);
  EXPECT_EQ(e, -a);
  EXPECT_LT(x, -50);  // the picture's corner lies outside the map, by its margins
  EXPECT_GT(y, 40);
  const Json trace = Json::parse(read("t.json"));
  const Json& events = trace.is_array() ? trace : trace["traceEvents"];
  EXPECT_GT(events.size(), 0u);
  EXPECT_EQ(Json::parse(read("r.json"))["command"], "coverage");
  EXPECT_TRUE(leftovers().empty());
}

TEST_F(CliCoverage, VerticalPlane) {
  const Json report = report_of({"--plane", "x=-20", "--area=-40,0,40,20", "--png", path("v.png")});
  EXPECT_EQ(report["grid"]["width"], 20);
  EXPECT_EQ(report["grid"]["height"], 5);
  EXPECT_EQ(report["grid"]["origin"], Json({-20.0, -40.0, 0.0}));
  EXPECT_GT(report["grid"]["covered_fraction"], 0.9);
  EXPECT_FALSE(exists("v.pgw"));  // no world file for what is no map
}

TEST_F(CliCoverage, MaterialsFileChangesTheMap) {
  write("m.toml", "wall = { eta_r = 1.0, sigma = inf }\n");
  const Json plain = report_of({}), metal = report_of({"--materials", path("m.toml")});
  EXPECT_NE(plain["grid"]["digest"], metal["grid"]["digest"]);
  EXPECT_GT(metal["grid"]["median_gain_db"], plain["grid"]["median_gain_db"]);
  write("bad.toml", "\nwall = { eta = 1.0 }\n");
  expect_one_line_error(run(coverage({"--materials", path("bad.toml")})), 3, "bad.toml:2");
}

TEST_F(CliCoverage, ExistingOutputIsReplacedOnlyAtTheEnd) {
  write("m.npy", "old");
  EXPECT_EQ(run(coverage({"--map", path("m.npy"), "--tx", "1,2,nan"})).code, 2);
  EXPECT_EQ(read("m.npy"), "old");
  EXPECT_EQ(run(coverage({"--map", path("m.npy")})).code, 0);
  EXPECT_EQ(read("m.npy").substr(1, 5), "NUMPY");
}

/// A deadline that no launch keeps ends the run with one error and no output; one that all keep changes
/// nothing. What hangs in a simulation is waited for so long in virtual time, and others may take its work
/// over.
TEST_F(CliCoverage, ADeadlineEndsWhatGetsNothingDone) {
  std::vector<std::string> arguments = coverage({"--map", path("m.npy"), "--deadline", "1e-6"});
  *std::find(arguments.begin(), arguments.end(), "40k") = "20M";
  expect_one_line_error(run(arguments), 1, "no device has got anything done for 1e-06 s (--deadline)");
  EXPECT_FALSE(exists("m.npy"));
  EXPECT_TRUE(leftovers().empty());
  EXPECT_EQ(run(coverage({"--map", path("m.npy"), "--deadline", "100"})).code, 0);
  for (const char* bad : {"0", "-1", "soon"})
    expect_one_line_error(run(coverage({std::string("--deadline=") + bad})), 2, "--deadline");

  const auto hanging = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"coverage",   box_scene(), "--tx",         "0,0,30",
                                       "--samples",  "20k",       "--devices",    "sim:3",
                                       "--min-rows", "0",         "--sim-faults", "device 1 launch 2 hangs",
                                       "--deadline", "7"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  expect_one_line_error(hanging({"--quiet"}), 1, "has not ended within 7 s, the deadline");
  const Outcome goes_on = hanging({"--on-device-failure", "failover"});
  EXPECT_EQ(goes_on.code, 0) << goes_on.err;
  EXPECT_NE(goes_on.err.find("within 7 s, the deadline"), std::string::npos) << goes_on.err;
}

}  // namespace
}  // namespace shardwise::test
