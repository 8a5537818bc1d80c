// The program under mpirun, on this machine: the answer of one process, errors that all ranks share, ranks
// that die.

#include <dirent.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Ranks : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    prepare_for_ranks("20");
  }

  /// mpirun's arguments: the same command on n ranks.
  static std::vector<std::string> on(int ranks, const std::vector<std::string>& command) {
    std::vector<std::string> words{"-n", std::to_string(ranks), SHARDWISE_RANK_PROGRAM};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  /// One rank after another, each with its own command line.
  static std::vector<std::string> each(const std::vector<std::vector<std::string>>& commands) {
    std::vector<std::string> words;
    for (const std::vector<std::string>& command : commands) {
      if (!words.empty()) words.emplace_back(":");
      const std::vector<std::string> one = on(1, command);
      words.insert(words.end(), one.begin(), one.end());
    }
    return words;
  }
  Json report_of(int ranks, std::vector<std::string> command, const std::string& name = "report.json") const {
    command.insert(command.end(), {"--json", path(name), "--quiet"});
    const Outcome outcome = run(on(ranks, command));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(read(name)) : Json();
  }
  /// What mpirun itself says besides is not ours.
  static int errors_in(const Outcome& outcome) {
    int count = 0;
    for (std::size_t at = 0; (at = outcome.err.find("shardwise: error: ", at)) != std::string::npos; ++at)
      ++count;
    return count;
  }
  /// The process of a rank of `launcher`; 0: not there.
  static pid_t rank_process(pid_t launcher, int rank) {
    pid_t found = 0;
    DIR* folder = opendir("/proc");
    const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
    while (const dirent* entry = readdir(folder)) {
      const pid_t id = static_cast<pid_t>(std::atol(entry->d_name));
      if (id <= 0) continue;
      const std::string stat = file_text("/proc/" + std::to_string(id) + "/stat");
      const std::size_t name_end = stat.rfind(')');
      if (name_end == std::string::npos || std::atol(stat.c_str() + name_end + 4) != launcher) continue;
      const std::string environment = file_text("/proc/" + std::to_string(id) + "/environ");
      const std::string terminated = wanted + '\0';
      if (environment.find(terminated) != std::string::npos) found = id;
    }
    closedir(folder);
    return found;
  }
  static int threads_of(pid_t process) {
    std::error_code gone;
    int count = 0;
    for (auto entry = std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone);
         !gone && entry != std::filesystem::directory_iterator(); entry.increment(gone))
      ++count;
    return count;
  }
  /// Hours of work on 3 ranks; `strike` gets rank 1's process after a moment. Fills in how long the run took
  /// to end.
  Outcome struck(const std::function<void(pid_t)>& strike, double* seconds) const {
    std::vector<std::string> command =
        coverage({"--map", path("map.npy"), "--json", path("report.json"), "--quiet"});
    *std::find(command.begin(), command.end(), "40k") = "100G";
    RunningProgram program(folder_, on(3, command));
    pid_t victim = 0;
    const auto begin = Clock::now();
    // The threads of MPI and of the watch, then those of the device's streams: it computes.
    while (seconds_since(begin) < 30 &&
           ((victim = rank_process(program.id(), 1)) == 0 || threads_of(victim) < 6))
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    EXPECT_GT(victim, 0) << file_text(path("stderr"));
    const auto start = Clock::now();
    if (victim > 0) strike(victim);
    while (program.is_running() && seconds_since(start) < 60)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    *seconds = seconds_since(start);
    EXPECT_FALSE(program.is_running()) << "the run hangs";
    if (victim > 0) kill(victim, SIGKILL);
    return program.wait();
  }
  void expect_nothing_written() const {
    EXPECT_FALSE(exists("map.npy"));
    EXPECT_FALSE(exists("report.json"));
    EXPECT_TRUE(leftovers().empty());
  }
};

TEST_F(Ranks, TheMapIsThatOfOneProcess) {
  const std::vector<std::string> command =
      coverage({"--tx", "20,-30,12", "--per-tx", "--samples", "30001", "--map", path("map.npy"),
                "--count-map", path("count.npy"), "--error-map", path("error.npy")});
  std::vector<std::string> one = command;
  one.erase(std::find(one.begin(), one.end(), "--samples"),
            std::find(one.begin(), one.end(), "--samples") + 2);
  const Json alone = report_of(1, one);
  const std::string map = read("map.npy"), count = read("count.npy"), error = read("error.npy");
  ASSERT_FALSE(map.empty());
  for (const int ranks : {2, 3, 4}) {
    // Windows of any length: the granule is switched off.
    std::vector<std::string> split = one;
    split.insert(split.end(), {"--min-rows", "0"});
    const Json report = report_of(ranks, split);
    ASSERT_TRUE(report.contains("ranks"));
    EXPECT_EQ(report["grid"], alone["grid"]);
    EXPECT_EQ(report["segments_traced"], alone["segments_traced"]);
    EXPECT_EQ(report["cells"], alone["cells"]);
    EXPECT_EQ(read("map.npy"), map);
    EXPECT_EQ(read("count.npy"), count);
    EXPECT_EQ(read("error.npy"), error);
    ASSERT_EQ(report["ranks"].size(), static_cast<std::size_t>(ranks));
    std::int64_t lanes = 0;
    for (const Json& rank : report["ranks"]) {
      EXPECT_GT(rank["lanes"], 0) << "every rank has to have had work";
      lanes += rank["lanes"].get<std::int64_t>();
    }
    EXPECT_EQ(lanes, alone["lanes"]);
    EXPECT_EQ(report["devices"].size(), static_cast<std::size_t>(ranks));
  }
}

TEST_F(Ranks, DevicesInsideRanks) {
  const Json alone = report_of(1, coverage({}));
  std::vector<std::string> command = coverage({"--min-rows", "0"});
  *std::find(command.begin(), command.end(), "host:1x1") = "host:2x1";
  const Json report = report_of(2, command);
  EXPECT_EQ(report["grid"], alone["grid"]);
  for (const Json& rank : report["ranks"])
    for (const Json& device : rank["devices"]) EXPECT_GT(device["lanes"], 0);
  // Unlike ranks: one has twice the devices of the other.
  std::vector<std::string> small = coverage({"--json", path("unlike.json"), "--quiet"}), large = small;
  *std::find(large.begin(), large.end(), "host:1x1") = "host:2x1";
  const Outcome outcome = run(each({small, large}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json unlike = Json::parse(read("unlike.json"));
  EXPECT_EQ(unlike["grid"], alone["grid"]);
  EXPECT_GT(unlike["ranks"][1]["lanes"], unlike["ranks"][0]["lanes"]);
}

TEST_F(Ranks, MunichHasOneDigest) {
  const std::string scene = std::string(SHARDWISE_TEST_SCENES) + "/munich/munich.xml";
  if (!std::filesystem::exists(scene)) GTEST_SKIP() << "the scene munich is not here (" << scene << ")";
  const std::vector<std::string> command{"coverage", scene,    "--tx", "8.5,21,30", "--samples",
                                         "300k",     "--cell", "10",   "--devices", "host:1x1"};
  const Json alone = report_of(1, command);
  for (const int ranks : {2, 3, 4}) {
    const Json report = report_of(ranks, command);
    EXPECT_EQ(report["grid"]["digest"], alone["grid"]["digest"]) << ranks;
    EXPECT_EQ(report["grid"]["stderr_digest"], alone["grid"]["stderr_digest"]) << ranks;
  }
}

TEST_F(Ranks, BytesDoNotDependOnRays) {
  const auto bytes = [&](const char* samples) {
    std::vector<std::string> command = coverage({"--min-rows", "0"});
    *std::find(command.begin(), command.end(), "40k") = samples;
    Json list = Json::array();
    const Json report = report_of(3, command);
    for (const Json& rank : report["ranks"]) list.push_back(rank["traffic"]);
    return list;
  };
  const Json few = bytes("40k"), many = bytes("320k");
  ASSERT_EQ(few.size(), 3u);
  EXPECT_EQ(few, many);
  EXPECT_NE(few.dump().find("coverage: exact grids"), std::string::npos) << few.dump();
}

TEST_F(Ranks, PiecesGoOnWithAnyNumberOfRanks) {
  const Json alone = report_of(1, coverage({}));
  // The first half on two ranks, the rest on three, and a checkpoint on the way.
  const Outcome half = run(on(2, coverage({"--lanes", "0:21000", "--partial", path("part"), "--quiet"})));
  ASSERT_EQ(half.code, 0) << half.err;
  EXPECT_EQ(report_of(3, coverage({"--resume", path("part"), "--checkpoint", path("checkpoint"),
                                   "--checkpoint-every", "0.01"}))["grid"],
            alone["grid"]);
  // All of it is in the checkpoint: nothing is left to do on four.
  EXPECT_EQ(report_of(4, coverage({"--resume", path("checkpoint")}))["grid"], alone["grid"]);
  const Json target_alone = report_of(1, coverage({"--target-error", "1.5dB"})),
             target = report_of(3, coverage({"--target-error", "1.5dB", "--verify"}));
  EXPECT_EQ(target["grid"], target_alone["grid"]);
  EXPECT_EQ(target["target_error"], target_alone["target_error"]);
  EXPECT_EQ(target["verify"]["equal"], true);
}

TEST_F(Ranks, AFaultOnOneRankEndsAll) {
  expect_ranks_to_end_together();
  const std::vector<std::string> good =
      coverage({"--map", path("map.npy"), "--json", path("report.json"), "--quiet"});
  std::vector<std::string> little = good, no_device = good, no_faces = good;
  little.insert(little.end(), {"--memory", "10Ki"});
  *std::find(no_device.begin(), no_device.end(), "host:1x1") = "tpu:0";
  const Outcome budget = run(each({good, little, good}));
  EXPECT_EQ(budget.code, 1) << budget.err;
  EXPECT_NE(budget.err.find("shardwise: error: rank 1: "), std::string::npos) << budget.err;
  EXPECT_NE(budget.err.find("10240 bytes"), std::string::npos) << budget.err;
  EXPECT_EQ(errors_in(budget), 1) << budget.err;
  expect_nothing_written();
  const Outcome device = run(each({good, good, no_device}));
  EXPECT_EQ(device.code, 2) << device.err;
  EXPECT_NE(device.err.find("rank 2: devices: 'tpu:0'"), std::string::npos) << device.err;
  EXPECT_EQ(errors_in(device), 1) << device.err;
  expect_nothing_written();
  // Rank 0 reads the scene for all.
  std::vector<std::string> no_file = good;
  *std::find(no_file.begin(), no_file.end(), path("scene.xml")) = path("nowhere.xml");
  const Outcome file = run(on(3, no_file));
  EXPECT_EQ(file.code, 3) << file.err;
  EXPECT_NE(file.err.find("nowhere.xml"), std::string::npos) << file.err;
  EXPECT_EQ(errors_in(file), 1) << file.err;
  expect_nothing_written();
}

TEST_F(Ranks, TheSameErrorIsSaidOnce) {
  expect_ranks_to_end_together();
  const Outcome outcome = run(on(3, coverage({"--cell", "0"})));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(errors_in(outcome), 1) << outcome.err;
  EXPECT_EQ(outcome.err.find("rank "), outcome.err.npos) << outcome.err;
  const Outcome fast = run(on(2, coverage({"--accumulation", "fast"})));
  EXPECT_EQ(fast.code, 2);
  EXPECT_NE(fast.err.find("2 ranks"), std::string::npos) << fast.err;
}

TEST_F(Ranks, OtherCommandsRunOnce) {
  const Outcome version = run(on(3, {"--version"}));
  EXPECT_EQ(version.code, 0) << version.err;
  EXPECT_EQ(version.out.find("shardwise "), version.out.rfind("shardwise ")) << version.out;
  const Outcome city = run(on(3, {"scene", "city", "-o", path("city"), "--blocks", "2x2"}));
  EXPECT_EQ(city.code, 0) << city.err;
  EXPECT_TRUE(exists("city/city.xml"));
}

TEST_F(Ranks, APlanHasEveryRank) {
  expect_ranks_to_end_together();
  const Outcome outcome = run(on(2, coverage({"--dry-run", "--json", path("plan.json")})));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json plan = Json::parse(read("plan.json"));
  ASSERT_EQ(plan["ranks"].size(), 2u);
  EXPECT_EQ(plan["ranks"][0]["lanes"].get<std::int64_t>() + plan["ranks"][1]["lanes"].get<std::int64_t>(),
            plan["lanes"]);
  const Outcome refused = run(each({coverage({"--dry-run"}), coverage({"--dry-run", "--memory", "10Ki"})}));
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("rank 1: "), std::string::npos) << refused.err;
}

// Each would otherwise give a map, or fields, that are no rank's, or leave ranks waiting for each other.
TEST_F(Ranks, UnlikeCommandLinesAreRefused) {
  const auto refuse = [this](const std::vector<std::vector<std::string>>& commands, const std::string& what) {
    const Outcome outcome = run(each(commands));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("shardwise: error: the ranks have different command lines: " + what),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(errors_in(outcome), 1) << outcome.err;
  };
  refuse({coverage({}), coverage({}), coverage({"--frequency", "28GHz"})},
         "rank 0 has no --frequency, rank 2 has --frequency 28GHz; give every rank the same");
  refuse({coverage({"--strict"}), coverage({})}, "rank 0 has --strict, rank 1 has no --strict;");
  std::vector<std::string> solve{"solve", "poisson", "--size",    "12x12",
                                 "--rhs", "1",       "--devices", "host:1x1"};
  refuse({coverage({}), solve}, "rank 0 has 'coverage', rank 1 has 'solve");
  std::vector<std::string> other = solve;
  other[5] = "2";
  refuse({solve, other}, "rank 0 has --rhs 1, rank 1 has --rhs 2;");
}

// Machines that share no file system may have other versions of a file.
TEST_F(Ranks, UnlikeBatchesAndPlansAreRefused) {
  box_scene();
  for (const char* rank : {"0", "1"}) {
    const std::string folder = std::string("r").append(rank) + "/";
    std::filesystem::create_directory(path(folder));
    write(folder + "batch.jsonl", R"({"id": "a", "command": ["echo", ")" + std::string(rank) + R"("]})");
    write(folder + "plan.toml",
          "[[run]]\nscene = \"../scene.xml\"\ntx = \"-10,0,10\"\nsamples = \"20k\"\nseed = " +
              std::string(rank) + "\n");
  }
  write("there.sh", "cd " + path("r") + "$OMPI_COMM_WORLD_RANK && exec " SHARDWISE_RANK_PROGRAM " \"$@\"\n");
  for (const auto& [command, file] : {std::pair{"jobs", "batch.jsonl"}, std::pair{"sweep", "plan.toml"}}) {
    const Outcome outcome = run({"-n", "2", "sh", path("there.sh"), command, file, "-o", path("out"),
                                 "--devices", "host:1x1", "--quiet"});
    EXPECT_NE(outcome.code, 0);
    EXPECT_EQ(errors_in(outcome), 1) << outcome.err;
    EXPECT_NE(outcome.err.find("'" + std::string(file) + "' of rank 1 on host "), std::string::npos)
        << outcome.err;
    EXPECT_NE(outcome.err.find("give every rank the same file"), std::string::npos) << outcome.err;
    EXPECT_FALSE(exists("out"));
  }
}

TEST_F(Ranks, ARankThatNeverStartsEndsTheRun) {
  setenv("SHARDWISE_RANK_DEADLINE", "2", 1);
  std::vector<std::string> words = each({coverage({"--json", path("report.json")})});
  words.insert(words.end(), {":", "-n", "1", "sleep", "60"});
  const auto start = Clock::now();
  const Outcome outcome = run(words);
  EXPECT_LT(seconds_since(start), 40);
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("MPI has not started on all ranks within 2 s"), std::string::npos)
      << outcome.err;
  expect_nothing_written();
}

TEST_F(Ranks, AKilledRankEndsTheRun) {
  double seconds = 0;
  const Outcome outcome = struck([](pid_t rank) { kill(rank, SIGKILL); }, &seconds);
  EXPECT_NE(outcome.code, 0);
  EXPECT_LT(seconds, 20);
  // The launcher says it.
  EXPECT_NE(outcome.err.find("rank 1"), std::string::npos) << outcome.err;
  expect_nothing_written();
}

TEST_F(Ranks, AStoppedRankIsNamedWithinTheDeadline) {
  setenv("SHARDWISE_RANK_DEADLINE", "2", 1);
  double seconds = 0;
  const Outcome outcome = struck([](pid_t rank) { kill(rank, SIGSTOP); }, &seconds);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_LT(seconds, 10);
  EXPECT_NE(outcome.err.find("shardwise: error: rank 1 ("), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("was not heard of for"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 2 ("), std::string::npos) << "the dump has every rank: " << outcome.err;
  expect_nothing_written();
}

TEST_F(Ranks, ASignalToOneRankStopsAll) {
  double seconds = 0;
  const Outcome outcome = struck([](pid_t rank) { kill(rank, SIGTERM); }, &seconds);
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  EXPECT_LT(seconds, 20);
  EXPECT_NE(outcome.err.find("stopped by SIGTERM"), std::string::npos) << outcome.err;
  expect_nothing_written();
}

/// Jobs that note in a file that they began.
std::string noting_jobs(int count, const std::string& log, const std::string& also_in_job_2 = "true") {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const std::string job =
        "echo " + std::to_string(i) + " >> " + log + "; sleep 0.05; " + (i == 2 ? also_in_job_2 : "true");
    text +=
        Json{{"id", "job" + std::to_string(i)}, {"cost", 1 + i % 3}, {"command", {"sh", "-c", job}}}.dump() +
        "\n";
  }
  return text;
}
std::vector<int> sorted_lines(const std::string& text) {
  std::istringstream lines(text);
  std::vector<int> numbers;
  for (int number; lines >> number;) numbers.push_back(number);
  std::ranges::sort(numbers);
  return numbers;
}

TEST_F(Ranks, JobsArePlacedAndPulledOnce) {
  constexpr int count = 16;
  write("batch.jsonl", noting_jobs(count, path("log")));
  const std::vector<std::string> command{
      "jobs",     path("batch.jsonl"), "-o",     path("out"),        "--devices",
      "host:1x1", "--quiet",           "--json", path("report.json")};
  const Outcome outcome = run(on(3, command));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json report = Json::parse(read("report.json"));
  EXPECT_EQ(report["done"], count);
  ASSERT_EQ(report["ranks"].size(), 3u);
  int total = 0;
  for (const Json& rank : report["ranks"]) {
    EXPECT_GT(rank["jobs"], 0) << "every rank has to have had work";
    total += rank["jobs"].get<int>();
  }
  EXPECT_EQ(total, count);
  const std::vector<int> begun = sorted_lines(read("log"));
  ASSERT_EQ(begun.size(), static_cast<std::size_t>(count)) << "each job once";
  for (int i = 0; i < count; ++i) EXPECT_EQ(begun[static_cast<std::size_t>(i)], i);
  // All is done: a rerun begins nothing.
  EXPECT_EQ(run(on(2, command)).code, 0);
  EXPECT_EQ(sorted_lines(read("log")).size(), static_cast<std::size_t>(count));
  // A failing job fails the command, once, and the others run.
  write("batch.jsonl", noting_jobs(4, path("log2"), "exit 7"));
  std::vector<std::string> failing = command;
  *std::find(failing.begin(), failing.end(), path("out")) = path("failing");
  const Outcome failed = run(on(2, failing));
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_EQ(errors_in(failed), 1) << failed.err;
  EXPECT_EQ(sorted_lines(read("log2")), (std::vector<int>{0, 1, 2, 3}));
}

// Commands that use MPI themselves, as this program does, are no ranks of this run.
TEST_F(Ranks, CommandsOfJobsAreNoRanks) {
  const std::string scene = box_scene();
  std::string batch;
  for (const char* id : {"a", "b"})
    batch +=
        R"({"id": ")" + std::string(id) + R"(", "command": [")" SHARDWISE_RANK_PROGRAM R"(", "coverage", ")" +
        scene +
        R"(", "--tx=-10,0,10", "--samples", "20k", "--cell", "5", "--devices", "host:1x1", "--json", ")" +
        path(id) + "\"]}\n";
  write("batch.jsonl", batch);
  const Outcome outcome = run(on(2, {"jobs", path("batch.jsonl"), "-o", path("out"), "--devices", "host:1x1",
                                     "--quiet", "--timeout", "20"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err << read("out/a/stderr");
  for (const char* id : {"a", "b"}) {
    ASSERT_TRUE(exists(id));
    EXPECT_FALSE(Json::parse(read(id)).contains("ranks"));
  }
}

TEST_F(Ranks, AfterADeadRankARerunDoesTheRest) {
  constexpr int count = 12;
  // Job 2 kills its rank, the first time.
  const std::string marker = path("killed");
  write("batch.jsonl",
        noting_jobs(count, path("log"),
                    "if [ ! -e " + marker + " ]; then touch " + marker + "; kill -9 $PPID; fi"));
  const std::vector<std::string> command{
      "jobs",     path("batch.jsonl"), "-o",     path("out"),        "--devices",
      "host:1x1", "--quiet",           "--json", path("report.json")};
  const Outcome died = run(on(3, command));
  EXPECT_NE(died.code, 0);
  EXPECT_FALSE(exists("report.json"));
  const std::vector<int> first = sorted_lines(read("log"));
  int done_before = 0;
  for (int i = 0; i < count; ++i) done_before += exists("out/job" + std::to_string(i) + "/result.json");
  const Outcome again = run(on(3, command));
  ASSERT_EQ(again.code, 0) << again.err;
  const Json report = Json::parse(read("report.json"));
  EXPECT_EQ(report["done"], count);
  EXPECT_EQ(report["kept"], done_before);
  EXPECT_EQ(sorted_lines(read("log")).size(), first.size() + static_cast<std::size_t>(count - done_before));
}

TEST_F(Ranks, ASweepIsSharedAndKept) {
  box_scene();
  write("plan.toml",
        "[defaults]\nscene = \"scene.xml\"\nsamples = \"20k\"\ncell = 5\n"
        "[[run]]\nname = \"a\"\ntx = [\"-10,0,10\", \"-20,5,10\", \"0,-20,15\"]\nfrequency = [\"1GHz\", "
        "\"3.5GHz\"]\n");
  const auto sweep = [&](int ranks, const std::string& out) {
    const Outcome outcome = run(on(ranks, {"sweep", path("plan.toml"), "-o", path(out), "--devices",
                                           "host:1x1", "--quiet", "--json", path(out + ".json")}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(read(out + ".json")) : Json();
  };
  const Json alone = sweep(1, "alone"), shared = sweep(3, "shared");
  EXPECT_EQ(alone["computed"], 6);
  ASSERT_EQ(shared["ranks"].size(), 3u);
  int computed = 0, compared = 0;
  for (const Json& rank : shared["ranks"]) computed += rank["runs"].get<int>();
  EXPECT_EQ(computed, 6);
  for (const auto& entry : std::filesystem::directory_iterator(path("alone"))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || !exists("alone/" + name + "/map.npy")) continue;
    EXPECT_EQ(read("shared/" + name + "/map.npy"), read("alone/" + name + "/map.npy")) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 6);
  EXPECT_EQ(sweep(2, "shared")["from_cache"], 6);
}

}  // namespace
}  // namespace shardwise::test
