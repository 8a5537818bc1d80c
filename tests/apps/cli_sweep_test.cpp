// `shardwise sweep` as users run it: products of lists, the cache, resuming, and everything that a plan may
// get wrong.

#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class Sweep : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    box_scene();
  }
  std::string plan(const std::string& text) const {
    write("plan.toml", text);
    return path("plan.toml");
  }
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"sweep",     path("plan.toml"), "-o",     path("out"),
                                   "--devices", "host:2x1",        "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Json sweep(const std::vector<std::string>& more = {}, int code = 0) const {
    const Outcome outcome = run(command(more));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }
  std::vector<std::vector<std::string>> table() const {
    std::istringstream lines(read("out/runs.csv"));
    std::vector<std::vector<std::string>> rows;
    for (std::string line; std::getline(lines, line);) {
      rows.emplace_back();
      std::istringstream fields(line);
      for (std::string field; std::getline(fields, field, ',');) rows.back().push_back(field);
    }
    return rows;
  }
};

constexpr const char* kPlan =
    "[defaults]\nscene = \"scene.xml\"\nsamples = \"20k\"\npasses = 2\ncell = 4\nmaterial = \"concrete\"\n"
    "[[run]]\ntx = [\"-30,0,10\", \"30,20,15\"]\nfrequency = [\"1GHz\", 3.5e9]\n";

TEST_F(Sweep, ExpandsComputesAndKeeps) {
  plan(kPlan);
  const Json first = sweep();
  EXPECT_EQ(first["runs"], 4);
  EXPECT_EQ(first["computed"], 4);
  EXPECT_EQ(first["from_cache"], 0);
  EXPECT_LE(first["scenes_built"], 2) << "once on each device";
  const auto rows = table();
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1][0], "scene-tx_-30_0_10-frequency_1GHz");
  EXPECT_EQ(rows[1][1], "computed");
  for (const char* file : {"report.json", "map.npy", "error-map.npy", "count-map.npy"})
    EXPECT_TRUE(exists("out/" + rows[1][0] + "/" + file)) << file;
  // The map is that of a plain run.
  const Outcome alone =
      run({"coverage", path("scene.xml"), "--tx=-30,0,10", "--frequency", "1GHz", "--samples", "20k",
           "--passes", "2", "--cell", "4", "--material", "concrete", "--devices", "host:1x1", "--json", "-"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(Json::parse(alone.out)["grid"]["digest"], rows[1][7]);
  const std::string map = read("out/" + rows[1][0] + "/map.npy");

  const Json second = sweep();
  EXPECT_EQ(second["computed"], 0);
  EXPECT_EQ(second["from_cache"], 4);
  fs::remove_all(path("out/" + rows[1][0]));
  EXPECT_EQ(sweep()["computed"], 0);
  EXPECT_EQ(read("out/" + rows[1][0] + "/map.npy"), map) << "written again from the cache";
  EXPECT_TRUE(leftovers().empty());
}

// Exactly the runs whose expanded parameters changed; not those that were only written otherwise.
/// 3.5 Hz, and so few rays that most cells have a handful: as coverage says, whether computed or kept.
TEST_F(Sweep, SaysWhereItsRunsHaveWarnings) {
  plan(
      "[[run]]\nscene = \"scene.xml\"\nmaterial = \"concrete\"\nsamples = 1000\nfrequency = [3.5, "
      "\"3.5GHz\"]\n"
      "tx = \"-30,0,10\"\n");
  for (const char* when : {"computed", "kept"}) {
    SCOPED_TRACE(when);
    const Outcome outcome = run(command());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("2 of 2 runs have warnings; see \"warnings\" in '" + path("out/")),
              std::string::npos)
        << outcome.err;
  }
}

TEST_F(Sweep, AChangeComputesWhatItChanges) {
  plan(kPlan);
  sweep();
  std::string text = kPlan;
  text.replace(text.find("3.5e9"), 5, "\"3500MHz\"");
  plan(text);
  EXPECT_EQ(sweep()["computed"], 0) << "the same frequency";
  text.replace(text.find("3500MHz"), 7, "3501MHz");
  plan(text);
  const Json changed = sweep();
  EXPECT_EQ(changed["computed"], 2);
  EXPECT_EQ(changed["from_cache"], 2);
  plan(text + "seed = [1, 2]\n");
  const Json more = sweep();
  EXPECT_EQ(more["computed"], 4);
  EXPECT_EQ(more["from_cache"], 4);
  // The scene's bytes count.
  write("scene.xml", read("scene.xml") + "<!-- -->\n");
  EXPECT_EQ(sweep()["computed"], 8);
}

// The same bytes under each other's names are another scene; a scene elsewhere, under another name, is not.
TEST_F(Sweep, FilesThatChangePlacesAreAnotherScene) {
  plan(
      "[[run]]\nscene = \"scene.xml\"\nname = \"it\"\nsamples = \"20k\"\npasses = 2\ncell = 4\ntx = "
      "\"-30,0,10\"\n");
  EXPECT_EQ(sweep()["computed"], 1);
  fs::create_directories(path("moved"));
  for (const char* file : {"ground.ply", "box.ply"}) fs::copy(path(file), path("moved/") + file);
  fs::copy(path("scene.xml"), path("moved/other.xml"));
  std::string text = read("plan.toml");
  plan(text.replace(text.find("scene.xml"), 9, "moved/other.xml"));
  EXPECT_EQ(sweep()["from_cache"], 1);
  write("moved/other.xml", read("scene.xml") + "<!-- -->\n");
  EXPECT_EQ(sweep()["computed"], 1);
  // A box of the ground's material, and a ground of the box's.
  const std::string xml = read("scene.xml");
  std::string unlike = xml;
  unlike.insert(
      unlike.find("<shape"),
      "<bsdf type=\"itu-radio-material\" id=\"floor\"><string name=\"type\" value=\"metal\"/></bsdf>\n");
  unlike.replace(unlike.find("\"wall\"/></shape>"), 6, "\"floor\"");
  write("moved/other.xml", unlike);
  EXPECT_EQ(sweep()["computed"], 1);
  const std::string before = table()[1][7];
  fs::rename(path("moved/ground.ply"), path("moved/kept"));
  fs::rename(path("moved/box.ply"), path("moved/ground.ply"));
  fs::rename(path("moved/kept"), path("moved/box.ply"));
  EXPECT_EQ(sweep()["computed"], 1) << "not the map of the scene before";
  EXPECT_NE(table()[1][7], before);
}

TEST_F(Sweep, APlanMayBeInAFolderOfAnyName) {
  const std::string folder = path("f\xff");
  fs::create_directory(folder);
  for (const char* file : {"scene.xml", "ground.ply", "box.ply"}) fs::copy(path(file), folder + "/" + file);
  plan(kPlan);
  fs::rename(path("plan.toml"), folder + "/plan.toml");
  for (const char* taken : {"computed", "from_cache"}) {
    const Outcome outcome =
        run({"sweep", folder + "/plan.toml", "-o", path("out"), "--devices", "host:2x1", "--json", "-"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(Json::parse(outcome.out)[taken], 4);
  }
}

// Nor is a run to blame for a claim that cannot be written.
TEST_F(Sweep, AFolderThatVanishesEndsTheSweepAndNoRunFails) {
  plan(std::string(kPlan) + "seed = [1, 2, 3]\nsamples = \"2M\"\n");
  RunningProgram program(folder_, {"sweep", path("plan.toml"), "-o", path("out"), "--devices", "host:1x1"});
  for (int i = 0; i < 1000 && !exists("out/.shardwise/lock"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  // At one stroke: the program is writing in it.
  fs::rename(path("out/.shardwise"), path("gone"));
  expect_one_line_error(program.wait(), 1, "cannot write '" + path("out/.shardwise/"));
}

TEST_F(Sweep, ADamagedEntryIsComputedAgainAndReported) {
  plan(kPlan);
  sweep();
  const auto rows = table();
  const std::string entry = "out/cache/" + rows[2][8] + ".run";
  std::string bytes = read(entry);
  for (int round = 0; round < 3; ++round) {
    std::string damaged = bytes;
    if (round == 0) damaged.resize(damaged.size() / 2);
    if (round == 1) damaged[damaged.size() / 2] ^= 1;
    if (round == 2) damaged.clear();
    write(entry, damaged);
    const Outcome outcome = run(command());
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json report = Json::parse(outcome.out);
    EXPECT_EQ(report["computed"], 1);
    EXPECT_EQ(report["damaged"], Json::array({rows[2][0]}));
    EXPECT_NE(outcome.err.find("the kept result of run '" + rows[2][0] + "' is damaged"), std::string::npos);
    EXPECT_EQ(table()[2][7], rows[2][7]) << "the same map";
  }
}

// A pipe would be waited for; what is in a folder is not ours to remove.
TEST_F(Sweep, AnEntryThatIsNoFile) {
  plan(kPlan);
  sweep();
  const auto rows = table();
  const std::string entry = "out/cache/" + rows[2][8] + ".run";
  fs::remove(path(entry));
  ASSERT_EQ(mkfifo(path(entry).c_str(), 0600), 0);
  const Json report = sweep();
  EXPECT_EQ(report["computed"], 1);
  EXPECT_EQ(report["damaged"], Json::array({rows[2][0]}));
  EXPECT_TRUE(fs::is_regular_file(path(entry))) << "replaced";
  fs::remove(path(entry));
  fs::create_directory(path(entry));
  write(entry + "/precious", "data");
  expect_one_line_error(run(command()), 3,
                        path(entry) + "' is a folder where the cache keeps a result; remove or rename it");
  EXPECT_EQ(read(entry + "/precious"), "data");
}

TEST_F(Sweep, AKilledSweepResumes) {
  plan(std::string(kPlan) + "seed = [1, 2, 3, 4, 5, 6]\nbounces = 8\n");
  const auto kept = [&] {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(path("out/cache"), ignored))
      count += entry.path().extension() == ".run";
    return count;
  };
  {
    RunningProgram first(folder_, command());
    for (int i = 0; i < 2000 && kept() < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    first.send(SIGKILL);
    first.wait();
  }
  const std::size_t before = kept();
  ASSERT_GE(before, 3u);
  ASSERT_LT(before, 24u);
  const Json report = sweep();
  EXPECT_EQ(report["from_cache"], before);
  EXPECT_EQ(report["computed"], 24 - before);
}

TEST_F(Sweep, TwoProcessesShareTheRuns) {
  plan(std::string(kPlan) + "seed = [1, 2, 3, 4, 5, 6]\nbounces = 8\n");
  fs::create_directories(path("one"));
  fs::create_directories(path("two"));
  RunningProgram owner(path("one"), command());
  for (int i = 0; i < 1000 && !exists("out/.shardwise/lock"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  RunningProgram other(path("two"), command({"--join"}));
  const Outcome a = owner.wait(), b = other.wait();
  ASSERT_EQ(a.code, 0) << a.err;
  ASSERT_EQ(b.code, 0) << b.err;
  const Json first = Json::parse(a.out), second = Json::parse(b.out);
  EXPECT_EQ(first["computed"].get<int>() + second["computed"].get<int>(), 24) << "nothing twice";
  EXPECT_EQ(first["runs"], first["computed"].get<int>() + first["elsewhere"].get<int>());
}

// Runs that others had, and gave up, are computed in a further round: the report has all rounds.
TEST_F(Sweep, TheReportHasAllRounds) {
  plan(kPlan);
  const Outcome dry = run({"sweep", path("plan.toml"), "--devices", "host:2x1", "--json", "-", "--dry-run"});
  ASSERT_EQ(dry.code, 0) << dry.err;
  fs::create_directories(path("out/.shardwise/claims"));
  write("out/.shardwise/folder.json", R"({"schema": 1, "command": "sweep"})");
  const Json runs = Json::parse(dry.out)["runs"];
  ASSERT_EQ(runs.size(), 4u);
  for (const Json& each : runs)
    write("out/.shardwise/claims/" + each["key"].get<std::string>(),
          R"({"schema": 1, "host": "another", "space": "", "process": 7, "started": "", "since": "today"})");
  RunningProgram program(folder_, command());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ASSERT_TRUE(program.is_running()) << "it waits for the others";
  for (const Json& each : runs) fs::remove(path("out/.shardwise/claims/" + each["key"].get<std::string>()));
  const Outcome outcome = program.wait();
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json report = Json::parse(outcome.out);
  EXPECT_EQ(report["computed"], 4);
  int jobs = 0;
  for (const Json& device : report["devices"]) jobs += device["jobs"].get<int>();
  EXPECT_EQ(jobs, 4);
  EXPECT_GE(report["scenes_built"].get<int>(), 1);
  EXPECT_GT(report["lower_bound_s"].get<double>(), 0);
}

TEST_F(Sweep, APlanSaysWhatIsKept) {
  plan(kPlan);
  const std::vector<std::string> dry{"--dry-run"};
  const Json before = sweep(dry);
  ASSERT_EQ(before["runs"].size(), 4u);
  for (const Json& each : before["runs"]) EXPECT_EQ(each["kept"], false);
  EXPECT_FALSE(exists("out"));
  sweep();
  plan(std::string(kPlan) + "bounces = [3, 2]\n");
  const Json after = sweep(dry);
  std::size_t kept = 0;
  for (const Json& each : after["runs"]) kept += each["kept"].get<bool>();
  EXPECT_EQ(kept, 4u);
  const Outcome text =
      run({"sweep", path("plan.toml"), "-o", path("out"), "--devices", "host:1x1", "--dry-run"});
  EXPECT_TRUE(text.out.starts_with("plan of 8 maps, 4 to compute, nothing was run\n")) << text.out;
}

// A run past its timeout is stopped, and its device takes the next one.
TEST_F(Sweep, ARunPastItsTimeoutFailsAlone) {
  plan(
      "[defaults]\nscene = \"scene.xml\"\ntx = \"0,0,30\"\npasses = 2\nbounces = 8\n"
      "[[run]]\nname = \"slow\"\nsamples = \"20G\"\n"
      "[[run]]\nname = \"quick\"\nsamples = \"2k\"\n");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = run({"sweep", path("plan.toml"), "-o", path("out"), "--devices", "host:1x1",
                               "--timeout", "1", "--json", "-"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  EXPECT_NE(outcome.err.find("job 'slow' on host:0: its program has not returned within its timeout of 1 s"),
            std::string::npos)
      << outcome.err;
  const Json report = Json::parse(outcome.out);
  EXPECT_EQ(report["computed"], 1);
  EXPECT_EQ(report["failed"], 1);
  EXPECT_EQ(report["devices"][0]["state"], "ok");
}

// One pass has no standard errors: those of an earlier map of the name are not beside it.
TEST_F(Sweep, AFolderHasTheFilesOfItsMapAlone) {
  const std::string table =
      "[[run]]\nscene = \"scene.xml\"\ntx = \"0,0,30\"\nsamples = 2000\nname = \"one\"\n";
  plan(table + "passes = 2\n");
  sweep();
  EXPECT_TRUE(exists("out/one/error-map.npy"));
  plan(table + "passes = 1\n");
  sweep();
  EXPECT_FALSE(exists("out/one/error-map.npy"));
  EXPECT_TRUE(exists("out/one/map.npy"));
  plan(table + "passes = 2\n");
  sweep();
  EXPECT_TRUE(exists("out/one/error-map.npy")) << "from the cache";
}

TEST_F(Sweep, PlanErrorsNameLineAndKey) {
  const auto refuse = [&](const std::string& text, const std::string& part) {
    plan(text);
    expect_one_line_error(run(command()), 3, part);
    EXPECT_FALSE(exists("out")) << "refused before anything is made";
  };
  const std::string run_table = "[[run]]\nscene = \"scene.xml\"\ntx = \"0,0,30\"\n";
  refuse(run_table + "frequenzy = 1e9\n", "plan.toml:4: unknown key 'frequenzy'; did you mean 'frequency'?");
  refuse("[default]\ncell = 3\n" + run_table, "plan.toml:1: unknown key 'default'; did you mean 'defaults'?");
  refuse("[[run]]\nscene = \n", "plan.toml:2: no TOML");
  refuse("[defaults]\ncell = 3\n", "there is no [[run]]");
  refuse("[run]\nscene = \"scene.xml\"\n", "plan.toml:1: 'run' is one table; write [[run]]");
  const std::string ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n";
  refuse(run_table + "bounces = " + ten + "seed = " + ten + "cell = " + ten + "height = " + ten +
             "frequency = " + ten + "samples = " + ten,
         "multiply to 1e+06 runs");
  refuse(run_table + "name = \"runs.csv\"\n", "is a name that the folder of results has for itself");
  refuse(run_table + "png = \"a.png\"\n", "plan.toml:4: 'png' is not a run's: sweep decides it");
  refuse(run_table + "cell = []\n", "plan.toml:4: 'cell' is an empty list");
  refuse(run_table + "cell = [[1, 2]]\n", "plan.toml:4: 'cell' is a list of lists, which only tx may be");
  refuse(run_table + "cell = -1\n", "plan.toml:1: run 'scene': --cell");
  refuse(run_table + "strict = \"yes\"\n", "'strict' is 'yes'; write true or false");
  refuse("[[run]]\nscene = \"scene.xml\"\n", "plan.toml:1: run 'scene': coverage needs a transmitter");
  refuse(run_table + run_table, "plan.toml:4: the run 'scene' is that of line 1, too");
  refuse(run_table + "frequency = [\"1GHz\",\n  2e9, \"1GHz\"]\n",
         "plan.toml:5: 'frequency' lists '1GHz' twice, as entries 1 and 3; remove one");
  refuse("[[run]]\nscene = \"scene.xml\"\nname = \"x\"\ntx = [\"0,0,30\", \"0,0,30\"]\n",
         "plan.toml:4: 'tx' lists '0,0,30' twice, as entries 1 and 2; remove one");
  refuse(run_table + "frequency = [\"1 GHz\", \"1_GHz\"]\n",
         "plan.toml:4: 'frequency': entries 1 ('1 GHz') and 2 ('1_GHz') give their runs one name");
  refuse("[[run]]\nscene = \"nowhere.xml\"\ntx = \"0,0,30\"\n", "nowhere.xml', which does not exist");
  refuse("[[run]]\ntx = \"0,0,30\"\n", "plan.toml:1: this [[run]] has no 'scene'; name a file");
  refuse(run_table + "diffraction = 1\n", "plan.toml:4: 'diffraction' is not in this version; leave it out");
  refuse(run_table + "chunk = 1\n", "plan.toml:4: 'chunk' is not a run's: sweep decides it");
  refuse(run_table + "per-tx = true\nper_tx = false\n", "plan.toml:5: 'per-tx' is given twice, with '_' and");
  refuse(run_table + run_table + "name = \"b\"\nmaterial = \"concret\"\n",
         "plan.toml:4: run 'b': material 'concret' is no material class");
  refuse(run_table + "area = \"1,1,0,0\"\n", "--area is empty");
  expect_one_line_error(run({"sweep", path("missing.toml"), "-o", path("out")}), 3, "missing.toml");
  plan(run_table);
  expect_one_line_error(run({"sweep", path("plan.toml")}), 2, "give -o DIR");
}

TEST_F(Sweep, ARunThatFailsLeavesTheOthers) {
  plan(
      "[defaults]\nscene = \"scene.xml\"\nsamples = \"20k\"\ncell = 4\nmaterial = \"concrete\"\n"
      "[[run]]\nname = \"good\"\ntx = \"-30,0,10\"\n"
      // Two transmitters of one run.
      "[[run]]\nname = \"two\"\ntx = [[\"-30,0,10\", \"30,20,15\"]]\nper_tx = true\n"
      "[[run]]\nname = \"large\"\ntx = \"-30,0,10\"\ncell = 0.05\n");
  const Outcome outcome = run(command({"--memory", "4Mi"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("job 'large': it needs"), std::string::npos) << outcome.err;
  const auto rows = table();
  EXPECT_EQ(rows[1][1], "computed");
  EXPECT_EQ(rows[2][1], "computed");
  EXPECT_EQ(rows[3][1], "failed");
}

}  // namespace
}  // namespace shardwise::test
