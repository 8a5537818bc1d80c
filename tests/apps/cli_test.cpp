// Help, version, unknown names, devices, scenes, bench: everything but coverage.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;
class Cli : public ProgramTest {};

TEST_F(Cli, EveryLevelHasHelpWithAnExample) {
  const std::vector<std::vector<std::string>> levels{{},
                                                     {"coverage"},
                                                     {"scene"},
                                                     {"scene", "info"},
                                                     {"scene", "city"},
                                                     {"scene", "dump"},
                                                     {"devices"},
                                                     {"bench"},
                                                     {"merge"},
                                                     {"solve"},
                                                     {"jobs"},
                                                     {"sweep"},
                                                     {"calibrate"},
                                                     {"calibrate", "coverage"}};
  for (std::vector<std::string> level : levels) {
    std::string name = "shardwise";
    for (const std::string& word : level) name += " " + word;
    level.push_back("--help");
    const Outcome outcome = run(level);
    EXPECT_EQ(outcome.code, 0) << name;
    EXPECT_EQ(outcome.err, "") << name;
    EXPECT_NE(outcome.out.find("Usage: " + name), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("Example:\n  shardwise"), std::string::npos) << outcome.out;
  }
}

TEST_F(Cli, DevicesListsTheLinksBetweenThem) {
  const Outcome outcome = run({"devices", "--devices", "host:2x1", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json links = Json::parse(outcome.out).at("links");
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[1].at("from"), "host:1");
  EXPECT_EQ(links[1].at("to"), "host:0");
  for (const Json& link : links) {
    EXPECT_EQ(link.at("path"), "same memory");
    EXPECT_EQ(link.at("peer"), true);
    EXPECT_TRUE(link.at("performance_rank").is_null());
    EXPECT_GT(link.at("bytes_per_s").get<double>(), 1e6);
    EXPECT_GT(link.at("latency_s").get<double>(), 0);
  }
  const Outcome text = run({"devices", "--devices", "host:3x1"});
  EXPECT_EQ(text.code, 0);
  for (const char* part : {"peer access", "same memory", "GB/s", " us"})
    EXPECT_NE(text.out.find(part), std::string::npos) << "'" << part << "' is not in: " << text.out;
}

TEST_F(Cli, VersionNamesCommitCompilerAndOptions) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* word : {"shardwise 0.", "commit ", "build ", " libraries, ", "host ", "cuda ", "options ",
                           "cuda=", "embree=", "io=", "mpi=", "pictures=", "toml="}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  }
}

TEST_F(Cli, UnknownNamesNameTheNearest) {
  expect_one_line_error(run({"covrage"}), 2, "did you mean 'coverage'?");
  expect_one_line_error(run({"coverage", "x.xml", "--freqency", "1GHz"}), 2, "did you mean '--frequency'?");
  expect_one_line_error(run({"scene", "inof", "x.xml"}), 2, "unknown subcommand 'inof'");
  expect_one_line_error(run({"devices", "--jsn=-"}), 2, "did you mean '--json'?");
  expect_one_line_error(run({"devices", "stray"}), 2, "unexpected argument 'stray'");
  expect_one_line_error(run({}), 2, "needs a subcommand");
  expect_one_line_error(run({"scene"}), 2, "needs a subcommand");
}

TEST_F(Cli, LaterCommandsAreRefusedByName) {
  for (const char* name : {"paths"}) {
    expect_one_line_error(run({name, "a", "--b", "c"}), 2,
                          std::string("'") + name + "' is not in this version");
  }
}

TEST_F(Cli, DevicesListsWhatWasAskedFor) {
  const Outcome outcome = run({"devices", "--devices", "host:2x1", "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json report = Json::parse(outcome.out);
  EXPECT_EQ(report["schema"], 1);
  ASSERT_EQ(report["devices"].size(), 2u);
  for (const Json& device : report["devices"]) {
    EXPECT_EQ(device["kind"], "host");
    EXPECT_EQ(device["threads"], 1);
    EXPECT_GT(device["memory_bytes"].get<std::uint64_t>(), 0u);
  }
  EXPECT_NE(report["devices"][0]["name"], report["devices"][1]["name"]);
  const Json full = {{"name", "intersect:full"},
                     {"class", "rows"},
                     {"bytes_in", 24},
                     {"bytes_out", 72},
                     {"platforms", {"host", "cuda", "sim"}},
                     {"sinks", {"to_master", "to_host", "resident", "offload", "reduce"}}};
  bool listed = false, lanes = false;
  for (const Json& operation : report["operations"]) {
    listed = listed || operation == full;
    lanes = lanes || (operation["name"] == "coverage" && operation["class"] == "lanes");
  }
  EXPECT_TRUE(listed && lanes) << report["operations"];
  expect_one_line_error(run({"devices", "--devices", "host:0"}), 2, "host:0");
  expect_one_line_error(run({"devices", "--devices", "toaster"}), 2, "toaster");
  expect_one_line_error(run({"devices", "--devices", "cuda:97"}), 2, "cuda:97");
}

TEST_F(Cli, LogFileHoldsTheError) {
  const Outcome outcome = run({"devices", "--devices", "toaster", "--log-file", path("log")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(read("log").find("toaster"), std::string::npos);
  expect_one_line_error(run({"devices", "--log-file", path("none/log")}), 2, "does not exist");
}

TEST_F(Cli, SceneInfoCountsShapesTrianglesAndMaterials) {
  const Outcome outcome = run({"scene", "info", box_scene(), "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json report = Json::parse(outcome.out);
  EXPECT_EQ(report["triangles"], 12);
  ASSERT_EQ(report["shapes"].size(), 2u);
  EXPECT_EQ(report["shapes"][1]["triangles"], 10);
  EXPECT_EQ(report["materials"][0]["itu_class"], "concrete");
  EXPECT_EQ(report["materials"][0]["triangles"], 12);
  EXPECT_EQ(report["bounds"]["low"], Json({-50, -40, 0}));
  EXPECT_EQ(report["bounds"]["high"], Json({50, 40, 20}));
  EXPECT_EQ(report["defects"].size(), 0u);
  EXPECT_NE(run({"scene", "info", box_scene()}).out.find("concrete"), std::string::npos);
}

TEST_F(Cli, SceneInfoCountsEdges) {
  const Outcome outcome = run({"scene", "info", box_scene(), "--json", "-"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json edges = Json::parse(outcome.out)["edges"];
  // A block without a floor stands on a square. Its sides have vertices of their own, and meet by position.
  const std::vector<std::pair<const char*, int>> expected{
      {"count", 22},      {"boundary", 8},  {"non_manifold", 0},      {"inconsistent_winding", 0},
      {"wedges", 12},     {"convex", 8},    {"concave", 0},           {"coplanar", 6},
      {"half_planes", 4}, {"wall_feet", 4}, {"closed_components", 0}, {"near_coincident_vertices", 0}};
  for (const auto& [key, count] : expected) EXPECT_EQ(edges[key], count) << key;
  EXPECT_NE(run({"scene", "info", box_scene()}).out.find("wedges: 12 (8 convex, 4 half-planes)"),
            std::string::npos);
}

TEST_F(Cli, DumpReadsBackAsTheSameScene) {
  ASSERT_EQ(run({"scene", "dump", box_scene(), "-o", path("s.swscene")}).code, 0);
  const Outcome before = run({"scene", "info", path("scene.xml"), "--json", "-"});
  const Outcome after = run({"scene", "info", path("s.swscene"), "--json", "-"});
  ASSERT_EQ(after.code, 0) << after.err;
  const Json a = Json::parse(before.out), b = Json::parse(after.out);
  for (const char* key : {"triangles", "vertices", "bounds", "materials", "shapes"})
    EXPECT_EQ(a[key], b[key]) << key;
  expect_one_line_error(run({"scene", "dump", path("scene.xml"), "-o", path("s.txt")}), 2, ".swscene");
}

TEST_F(Cli, CityIsTheSameForTheSameSeed) {
  const auto make = [&](const char* name, const char* seed) {
    return run({"scene", "city", "-o", path(name), "--blocks", "2x1", "--seed", seed, "--json", "-"});
  };
  const Outcome one = make("a", "7"), two = make("b", "7"), other = make("c", "8");
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(exists("a/city.xml"));
  EXPECT_EQ(read("a/city.xml"), read("b/city.xml"));
  EXPECT_NE(Json::parse(one.out)["triangles"], 0);
  EXPECT_NE(read("a/city.xml"), read("c/city.xml"));
  EXPECT_EQ(run({"scene", "info", path("a/city.xml")}).code, 0);
  EXPECT_TRUE(leftovers().empty());
  expect_one_line_error(run({"scene", "city", "-o", path("no/city")}), 2, "does not exist");
  expect_one_line_error(run({"scene", "city", "-o", path("d"), "--blocks", "0x2"}), 2, "--blocks");
  EXPECT_FALSE(exists("d"));
}

TEST_F(Cli, BenchRefusesWhatItDoesNotKnow) {
  expect_one_line_error(run({"bench", "nonsense"}), 2, "unknown benchmark 'nonsense'");
  expect_one_line_error(run({"bench"}), 2, "needs the name");
}

TEST_F(Cli, BenchSaysWhatItsRowsAndColumnsAre) {
  const std::string text = run({"bench", "scaling", "--quick", "--repeat", "1"}).out;
  // One line for a work on more and more devices, and no column that nobody fills.
  EXPECT_NE(
      text.find("\n\nall: the least time on the devices of the row, then the median; one: the same on one "
                "of them, or what the row names below; ratio: one / all"),
      std::string::npos)
      << text;
  const std::string what = text.substr(std::min(text.find("\nwhat was run:\n"), text.size()));
  EXPECT_EQ(std::ranges::count(what, '\n'), 2 + 5) << what;
  EXPECT_NE(what.find("  intersect-1, intersect-2, intersect-4, intersect-8: 1048576 rays"),
            std::string::npos)
      << what;
  EXPECT_EQ(text.find("limit"), std::string::npos) << text;
}

// What a row notes of its run is other in every run, and no part of what makes it the same row.
TEST_F(Cli, BenchFindsRowsWithNotesInABaseline) {
  const std::vector<std::string> words{"bench",    "jobs", "--devices", "host:1x1",  "--quick",
                                       "--repeat", "1",    "--only",    "empty-job", "--json"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  ASSERT_EQ(with({path("before.json")}).code, 0);
  Json before = Json::parse(read("before.json"));
  Json& row = before["rows"][0];
  EXPECT_NE(row["work"].get<std::string>().find(" us of each device for a job above the bare launch"),
            std::string::npos)
      << row;
  row["work"] = row["work"].get<std::string>() + " and so on";
  row["all_s"]["min"] = 1e6;  // whatever this run takes
  write("before.json", before.dump());
  const Outcome after = with({"-", "--baseline", path("before.json")});
  EXPECT_EQ(after.code, 0) << after.err;
  EXPECT_GT(Json::parse(after.out)["rows"][0]["share_of_baseline"].get<double>(), 1);
  row["all_s"]["min"] = 1e-9;
  write("before.json", before.dump());
  const Outcome slower = with({"-", "--baseline", path("before.json")});
  EXPECT_EQ(slower.code, 1);
  EXPECT_NE(slower.err.find("slower than 0.98 of the baseline: empty-job on host:1x1"), std::string::npos)
      << slower.err;
}

TEST_F(Cli, FullStandardOutputIsAnIoError) {
  const Outcome outcome = run({"devices", "--devices", "host:1"}, "/dev/full");
  expect_one_line_error(outcome, 1, "standard output");
}

}  // namespace
}  // namespace shardwise::test
