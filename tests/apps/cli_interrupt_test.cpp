// A signal in the middle: the exit code names it, and outputs are whole or absent.

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

class Interrupt : public ProgramTest {
 protected:
  /// Stops a run of hours after a moment; returns the outcome.
  Outcome stop_with(int number) const {
    write("map.npy", "what was there before");
    std::vector<std::string> arguments = coverage({"--map", path("map.npy"), "--json", path("report.json")});
    *std::find(arguments.begin(), arguments.end(), "40k") = "100G";
    RunningProgram program(folder_, arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_TRUE(program.is_running());
    const auto start = std::chrono::steady_clock::now();
    program.send(number);
    Outcome outcome = program.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 60) << "a stop has to be heard within a launch";
    return outcome;
  }
  void check(int number, const std::string& name) const {
    const Outcome outcome = stop_with(number);
    expect_one_line_error(outcome, 128 + number, name);
    EXPECT_EQ(read("map.npy"), "what was there before");
    EXPECT_FALSE(exists("report.json"));
    EXPECT_TRUE(leftovers().empty());
  }
};

TEST_F(Interrupt, Terminate) {
  check(SIGTERM, "SIGTERM");
}
TEST_F(Interrupt, ControlC) {
  check(SIGINT, "SIGINT");
}
TEST_F(Interrupt, HangUp) {
  check(SIGHUP, "SIGHUP");
}

// An output that is a pipe is waited for until somebody reads it, or until a signal.
TEST_F(Interrupt, APipeThatNobodyReadsIsWaitedForNoLonger) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  RunningProgram program(folder_, coverage({"--json", path("pipe"), "--quiet"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ASSERT_TRUE(program.is_running());
  program.send(SIGTERM);
  for (int i = 0; i < 100 && program.is_running(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const bool hangs = program.is_running();
  EXPECT_FALSE(hangs);
  if (hangs) program.send(SIGKILL);
  expect_one_line_error(program.wait(), 143, "SIGTERM");
  // With a reader it gets everything.
  RunningProgram read_program(folder_, coverage({"--json", path("pipe"), "--quiet"}));
  std::ifstream reader(path("pipe"));
  const std::string text{std::istreambuf_iterator<char>(reader), {}};
  EXPECT_EQ(read_program.wait().code, 0);
  EXPECT_NE(text.find("\"digest\""), std::string::npos) << text;
}

// Scenes of two million triangles, built one after the other before anything is timed, then calls of seconds:
// none of it is worth waiting for.
TEST_F(Interrupt, BenchmarksStopWhereverTheyAre) {
  for (const int moment_ms : {300, 2500}) {
    RunningProgram program(
        folder_, {"bench", "dispatch", "--devices", "host:1x1", "--quiet", "--json", path("report.json")});
    std::this_thread::sleep_for(std::chrono::milliseconds(moment_ms));
    ASSERT_TRUE(program.is_running());
    const auto start = std::chrono::steady_clock::now();
    program.send(SIGINT);
    const Outcome outcome = program.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 3) << "of which half a second is given to the orderly end";
    expect_one_line_error(outcome, 130, "stopped by SIGINT; no output was written");
    EXPECT_FALSE(exists("report.json"));
    EXPECT_TRUE(leftovers().empty());
  }
}

}  // namespace
}  // namespace shardwise::test
