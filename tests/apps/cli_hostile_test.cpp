// Files and options that nobody gives on purpose: each ends with one line and the right exit code, and in
// time.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Words = std::vector<std::string>;

class Hostile : public ProgramTest {
 protected:
  /// An NPY file of version 1 with this header and data.
  std::string npy(const std::string& name, const std::string& header, const std::string& data = "") const {
    const auto length = static_cast<std::uint16_t>(header.size());
    std::string bytes = std::string("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(length & 255);
    bytes += static_cast<char>(length >> 8);
    write(name, bytes + header + data);
    return path(name);
  }
  Outcome jobs(const std::string& line, const Words& more = {}) const {
    write("batch.jsonl", line + "\n");
    Words words{"jobs", path("batch.jsonl"), "-o", path("out"), "--devices", "host:1x1"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

// A folder opens like a file; reading it is what fails. A pipe is waited for.
TEST_F(Hostile, FoldersAndPipesAreNoFiles) {
  std::filesystem::create_directory(path("folder"));
  std::filesystem::create_directory(path("folder.npy"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(path("pipe.npy").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", path("endless.npy"));
  Words calibrated = coverage({"--calibration", path("folder"), "--dry-run"});
  expect_one_line_error(run(calibrated), 3, "calibration: '" + path("folder") + "' cannot be read");
  for (const char* name : {"folder", "pipe"}) {
    for (const Words& read :
         {Words{"--calibration", path(name)}, Words{"--devices", std::string("sim:").append(path(name))},
          Words{"--devices", "sim:2", "--sim-faults", std::string("@").append(path(name))}}) {
      Words words = coverage({"--dry-run"});
      words.resize(words.size() - 3);  // --devices, and what is asked for
      words.emplace_back("--dry-run");
      words.insert(words.end(), read.begin(), read.end());
      expect_one_line_error(run(words), 3, path(name) + "' cannot be read (it is no regular file)");
    }
    expect_one_line_error(run({"bench", "dispatch", "--quick", "--baseline", path(name)}), 3,
                          "is not a regular file");
    expect_one_line_error(run({"merge", path(name)}), 3, "is not a regular file");
  }
  for (const char* name : {"folder.npy", "pipe.npy", "endless.npy"})
    expect_one_line_error(run({"solve", "poisson", "--size", "8", "--rhs", path(name)}), 3,
                          "is not a regular file");
}

TEST_F(Hostile, ABaselineIsReadAsWritten) {
  for (const char* text :
       {"", "[]", "1", R"({"rows": 1})", R"({"rows": [1]})", R"({"rows": [{"name": 1}]})",
        R"({"rows": [{"name": "x", "devices": "y", "work": "z", "all_s": {"min": "1"}}]})"}) {
    write("baseline.json", text);
    expect_one_line_error(run({"bench", "dispatch", "--quick", "--baseline", path("baseline.json")}), 3,
                          "is not a report of 'shardwise bench'");
  }
}

// The product of these sizes is 0 in 64 bits, as is the number of values that follow.
TEST_F(Hostile, ArraysWhoseSizesOverflowAreRefused) {
  const std::string zero =
      npy("zero.npy", "{'descr':'<f8','fortran_order':False,'shape':(4294967296,4294967296,1)}\n");
  expect_one_line_error(run({"solve", "poisson", "--size", "8", "--rhs", zero}), 3,
                        "bytes for a shape of 4294967296 values and more");
  const std::string two =
      npy("two.npy", "{'descr':'<f8','fortran_order':False,'shape':(1099511627776,16777217)}\n",
          std::string(8, '\0'));
  expect_one_line_error(run({"solve", "poisson", "--size", "8", "--rhs", two}), 3, "bytes for a shape of");
  const std::string object =
      npy("object.npy", "{'descr':'|O','fortran_order':False,'shape':(8,)}\n", std::string(64, '\0'));
  expect_one_line_error(run({"solve", "poisson", "--size", "8", "--rhs", object}), 3, "has the type '|O';");
}

TEST_F(Hostile, PartsAndScalesHaveLimits) {
  const auto solve = [this](const Words& more) {
    Words words{"solve", "poisson", "--size", "8x8", "--rhs", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  expect_one_line_error(solve({"--process-grid", "1000x1000"}), 2, "1000000 parts; at most 1024");
  expect_one_line_error(solve({"--process-grid", "1000000x1000000"}), 2, "at most 1024");
  expect_one_line_error(solve({"--parts", "1000000"}), 2, "--parts must be at most 1024");
  expect_one_line_error(solve({"--extent", "1e-200x1"}), 2, "kappa over the squared spacing is up to inf");
  expect_one_line_error(solve({"--extent", "1e300x1e300"}), 2, "kappa over the squared spacing is up to 0 ");
  expect_one_line_error(run({"solve", "diffusion", "--size", "8", "--kappa", "1e308"}), 2, "up to inf");
  expect_one_line_error(solve({"--extent", "1e-7x1", "--precision", "float"}), 2,
                        "1e+12 for --precision float");
  EXPECT_EQ(solve({"--extent", "1e-20x1e-20"}).code, 0) << "small, and fine";
}

TEST_F(Hostile, AProgramsArgumentsHaveNoZeroBytes) {
  expect_one_line_error(jobs(R"({"id": "a", "command": ["true\u0000false"]})"), 3, "has a zero byte");
  expect_one_line_error(jobs(R"({"id": "a", "command": ["echo", "one\u0000two"]})"), 3, "has a zero byte");
}

// SIGTERM alone would stay pending, and two seconds pass until SIGKILL.
TEST_F(Hostile, AStoppedCommandHearsThatItIsToEnd) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome outcome = jobs(
      R"({"id": "a", "timeout_s": 0.2, "command": ["sh", "-c", "trap 'echo told; exit' TERM; kill -STOP $$; sleep 9"]})");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  EXPECT_EQ(read("out/a/stdout"), "told\n");
}

// As on a full disk: claims and results cannot be written. The run ends, and says why.
TEST_F(Hostile, AFolderThatCannotBeWrittenEndsTheRun) {
  std::string batch = R"({"id": "a", "cost": 9, "command": ["sh", "-c", "rm -rf )" + path("out/.shardwise") +
                      R"(; touch )" + path("out/.shardwise") + R"("]})";
  for (int i = 0; i < 30; ++i)
    batch.append("\n{\"id\": \"b").append(std::to_string(i)).append(R"(", "command": ["true"]})");
  const Outcome claims = jobs(batch);
  EXPECT_EQ(claims.code, 1);
  EXPECT_NE(claims.err.find("cannot write '"), std::string::npos) << claims.err;
  std::filesystem::remove_all(path("out"));
  batch = R"({"id": "a", "cost": 9, "command": ["mkdir", ")" + path("out/a/result.json") + R"("]})";
  for (int i = 0; i < 30; ++i)
    batch.append("\n{\"id\": \"b").append(std::to_string(i)).append(R"(", "command": ["sleep", "0.1"]})");
  const auto begin = std::chrono::steady_clock::now();
  const Outcome results = jobs(batch);
  EXPECT_EQ(results.code, 1);
  EXPECT_NE(results.err.find("cannot write '" + path("out/a/result.json") +
                             "' (Is a directory); remove or rename the folder of that name"),
            std::string::npos)
      << results.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2900))
      << "the rest did not run";
}

// It was there before the job, which is not blamed for it, and nothing is taken away.
TEST_F(Hostile, AFileInAJobsPlaceIsLeftAlone) {
  ASSERT_EQ(jobs(R"({"id": "a", "command": ["true"]})").code, 0);
  const std::string more = R"({"id": "a", "command": ["true"]})"
                           "\n"
                           R"({"id": "b", "command": ["true"]})";
  write("out/b", "precious");
  expect_one_line_error(jobs(more), 2,
                        path("out/b") + "' is a file, where job 'b' keeps its results; remove");
  EXPECT_EQ(read("out/b"), "precious");
  std::filesystem::remove(path("out/b"));
  std::filesystem::create_directory(path("elsewhere"));
  std::filesystem::create_directory_symlink(path("elsewhere"), path("out/b"));
  expect_one_line_error(jobs(more), 2, "' is a link, where job 'b' keeps its results; remove");
  EXPECT_TRUE(std::filesystem::is_symlink(path("out/b")));
  std::filesystem::remove(path("out/b"));
  EXPECT_EQ(jobs(more).code, 0);
}

// What a job puts where its folder was is taken away, and nothing is written through it.
TEST_F(Hostile, AJobThatReplacesItsFolderIsNamed) {
  const std::string place = path("out/a");
  std::filesystem::create_directory(path("elsewhere"));
  write("elsewhere/precious", "data");
  write("file", "kept");
  const auto expect_replaced = [&](const std::string& command, const std::string& what) {
    std::filesystem::remove_all(path("out"));
    const Outcome outcome =
        jobs(R"({"id": "a", "command": ["sh", "-c", "echo said; rm -rf )" + place + command + R"("]})");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("warning: job 'a' " + what), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("is lost"), std::string::npos) << outcome.err;
    EXPECT_TRUE(std::filesystem::is_directory(std::filesystem::symlink_status(place)));
    EXPECT_TRUE(exists("out/a/result.json"));
    EXPECT_FALSE(exists("out/a/stdout"));
  };
  expect_replaced("; ln -s " + path("elsewhere") + " " + place,
                  "replaced its folder '" + place + "' by a link");
  expect_replaced("; ln -s " + path("nowhere") + " " + place,
                  "replaced its folder '" + place + "' by a link");
  expect_replaced("; ln " + path("file") + " " + place, "replaced its folder '" + place + "' by a file");
  expect_replaced("", "removed its folder '" + place + "'");
  expect_replaced("; mkdir " + place, "removed or replaced its '" + place + "/stdout.part'");
  const auto entries = std::filesystem::directory_iterator(path("elsewhere"));
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "nothing was written there";
  EXPECT_EQ(read("elsewhere/precious"), "data");
  EXPECT_EQ(read("file"), "kept");
}

// One job lays a link where another's folder or output will be: found before the other begins.
TEST_F(Hostile, LinksLaidForAnotherJobAreNotFollowed) {
  std::filesystem::create_directory(path("elsewhere"));
  write("target", "kept");
  const Outcome outcome = jobs(
      R"({"id": "a", "cost": 9, "command": ["sh", "-c", "ln -s )" + path("elsewhere") + " " + path("out/b") +
      "; mkdir " + path("out/c") + "; ln -s " + path("target") + " " + path("out/c/stdout.part") + R"("]})" +
      "\n" + R"({"id": "b", "command": ["echo", "b"]})" + "\n" + R"({"id": "c", "command": ["echo", "c"]})");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("job 'b' "), std::string::npos) << outcome.err;
  EXPECT_TRUE(std::filesystem::is_empty(path("elsewhere")));
  EXPECT_EQ(read("out/b/stdout"), "b\n");
  EXPECT_EQ(read("target"), "kept");
  EXPECT_EQ(read("out/c/stdout"), "c\n");
}

// A pipe opens only once somebody writes to it.
TEST_F(Hostile, APipeInPlaceOfAResultIsNotWaitedFor) {
  const std::string line = R"({"id": "a", "command": ["true"]})";
  ASSERT_EQ(jobs(line).code, 0);
  std::filesystem::remove(path("out/a/result.json"));
  ASSERT_EQ(mkfifo(path("out/a/result.json").c_str(), 0600), 0);
  expect_one_line_error(
      jobs(line), 3,
      path("out/a/result.json") + "' is no regular file, which belongs there; remove or rename it");
}

// Each takes many seconds, in a step that does no more than prepare.
TEST_F(Hostile, EveryLongStepHearsASignal) {
  for (const Words& words :
       {Words{"scene", "city", "-o", path("city"), "--blocks", "200x200"},
        Words{"solve", "diffusion", "--size", "400x400x400", "--kappa", "1+exp(sin(x*y*z))", "--rhs", "1"},
        Words{"devices", "--devices", "sim:512"}}) {
    SCOPED_TRACE(words[0] + " " + words[1]);
    RunningProgram program(folder_, words);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    ASSERT_TRUE(program.is_running());
    const auto begin = std::chrono::steady_clock::now();
    program.send(SIGINT);
    EXPECT_EQ(program.wait().code, 130);
    // Alone it is a tenth of a second; how many run beside it nobody knows.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
    EXPECT_FALSE(exists("city"));
    EXPECT_TRUE(leftovers().empty());
  }
}

TEST_F(Hostile, AReportDoesNotReplaceTheTable) {
  const std::string line = R"({"id": "a", "command": ["true"]})";
  ASSERT_EQ(jobs(line).code, 0);
  const std::string table = read("out/results.csv");
  expect_one_line_error(jobs(line, {"--json", path("out/results.csv")}), 2,
                        "--json would overwrite the table");
  EXPECT_EQ(read("out/results.csv"), table);
  EXPECT_EQ(jobs(line, {"--json", path("out/report.json")}).code, 0);
}

// What an option cannot change is no option of the call.
TEST_F(Hostile, OptionsWithoutAnEffectAreRefused) {
  expect_one_line_error(run({"solve", "poisson", "--size", "8", "--devices", "host:1", "--sim-seed", "4"}), 2,
                        "--sim-seed 4 is for simulated devices, --devices 'host:1' has none; leave it out");
  EXPECT_EQ(run({"solve", "poisson", "--size", "8", "--devices", "sim:1", "--sim-seed", "4"}).code, 0);
  for (const char* name : {"scaling", "jobs", "grid", "dispatch", "budget"})
    expect_one_line_error(run({"bench", name, "--quick", "--scene", "nowhere.xml"}), 2,
                          "takes none; leave it out");
  expect_one_line_error(
      run({"bench", "trace", "--quick", "--devices", "host:1", "--scene", path("nowhere.xml")}), 3,
      "nowhere.xml");
}

}  // namespace
}  // namespace shardwise::test
