// Coverage in pieces: windows, partials, merge, checkpoints, resume, target error, maps of each transmitter.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class Pieces : public ProgramTest {
 protected:
  Json report_of(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--json", "-"});
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(outcome.out) : Json();
  }
  Json map_of(const std::vector<std::string>& more) const { return report_of(coverage(more)); }
  static std::string digests(const Json& report) {
    return report["grid"]["digest"].dump() + report["grid"]["stderr_digest"].dump();
  }
  std::vector<std::string> with(std::vector<std::string> arguments, const std::string& option,
                                const std::string& value) const {
    const auto place = std::find(arguments.begin(), arguments.end(), option);
    if (place == arguments.end())
      arguments.insert(arguments.end(), {option, value});
    else
      *std::next(place) = value;
    return arguments;
  }
};

TEST_F(Pieces, ThreeWindowsInThreeProcessesMergeInAllOrders) {
  const Json whole = map_of({});
  const std::vector<std::string> windows{":7001", "7001:25k", "25k:"};
  const std::vector<std::string> devices{"host:1x1", "host:2x1", "sim:2"};
  // The scene's files are written with the command lines: all before the first program reads them.
  std::vector<std::vector<std::string>> lines;
  for (std::size_t k = 0; k < 3; ++k)
    lines.push_back(with(
        coverage({"--lanes", windows[k], "--partial", path(std::to_string(k) + ".part"), "--min-rows", "0"}),
        "--devices", devices[k]));
  std::vector<std::unique_ptr<RunningProgram>> programs;
  for (std::size_t k = 0; k < 3; ++k) {
    const fs::path folder = folder_ / std::to_string(k);
    fs::create_directory(folder);
    programs.push_back(std::make_unique<RunningProgram>(folder, lines[k]));
  }
  for (const auto& program : programs) {
    const Outcome outcome = program->wait();
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  std::vector<int> order{0, 1, 2};
  int orders = 0;
  do {
    std::vector<std::string> arguments{"merge"};
    for (const int part : order) arguments.push_back(path(std::to_string(part) + ".part"));
    const Json joined = report_of(arguments);
    EXPECT_EQ(digests(joined), digests(whole));
    EXPECT_EQ(joined["segments_traced"], whole["segments_traced"]);
    EXPECT_EQ(joined["lanes"], whole["lanes"]);
    EXPECT_EQ(joined["cells"], whole["cells"]);
    EXPECT_EQ(joined["warnings"], whole["warnings"]);
    EXPECT_EQ(joined["command"], "merge");
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 6);

  // Files come out as from one run; parts can be joined step by step.
  ASSERT_EQ(
      run(coverage({"--map", path("m.npy"), "--error-map", path("e.npy"), "--count-map", path("c.npy")}))
          .code,
      0);
  ASSERT_EQ(run({"merge", path("2.part"), path("0.part"), "--partial", path("02.part")}).code, 0);
  ASSERT_EQ(run({"merge", path("02.part"), path("1.part"), "--map", path("mm.npy"), "--error-map",
                 path("ee.npy"), "--count-map", path("cc.npy")})
                .code,
            0);
  for (const char* name : {"m", "e", "c"})
    EXPECT_EQ(read(std::string(name) + ".npy"), read(std::string(name) + name + ".npy")) << name;

  // Gaps and overlaps have names.
  expect_one_line_error(run({"merge", path("0.part"), path("2.part")}), 3,
                        "leave 17999 of 40000 lanes out: 7001 to 25000");
  expect_one_line_error(run({"merge", path("0.part"), path("02.part")}), 3, "both hold the lanes 0 to 7001");
  EXPECT_TRUE(leftovers().empty());
}

TEST_F(Pieces, PartsOfOtherRunsAreRefusedByParameter) {
  ASSERT_EQ(run(coverage({"--lanes", ":1000", "--partial", path("a.part")})).code, 0);
  const std::vector<std::pair<std::vector<std::string>, std::string>> others{
      {{"--seed", "2"}, "seed"},
      {{"--frequency", "2GHz"}, "materials"},
      {{"--passes", "4"}, "passes"},
      {{"--bounces", "2"}, "bounces"},
      {{"--polarization", "h"}, "polarization"},
      {{"--walls", "slab"}, "walls"},
      {{"--height", "2"}, "plane"},
      {{"--area=0,0,40,40"}, "area"},
      {{"--tx", "0,0,9"}, "transmitters"},
      {{"--per-tx"}, "per_tx"},
      {{"--strict"}, "tracer"}};
  for (const auto& [more, parameter] : others) {
    SCOPED_TRACE(parameter);
    std::vector<std::string> arguments = coverage({"--lanes", "1000:2000", "--partial", path("b.part")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome made = run(arguments);
    ASSERT_EQ(made.code, 0) << made.err;
    const Outcome outcome = run({"merge", path("a.part"), path("b.part"), "--partial", path("ab.part")});
    expect_one_line_error(outcome, 3, "b.part' is of another run than");
    expect_one_line_error(outcome, 3, parameter + " is ");
    arguments = coverage({"--resume", path("a.part")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_one_line_error(run(arguments), 3, parameter + " is ");
  }
  EXPECT_FALSE(exists("ab.part"));
}

TEST_F(Pieces, KilledRunResumesToTheSameDigest) {
  const std::vector<std::string> base = with(coverage({}), "--samples", "3M");
  const Json whole = report_of(base);
  std::vector<std::string> arguments = base;
  arguments.insert(arguments.end(),
                   {"--checkpoint", path("run.part"), "--checkpoint-every", "0.02", "--map", path("m.npy")});
  {
    RunningProgram program(folder_, arguments);
    const auto start = std::chrono::steady_clock::now();
    while (!exists("run.part") && program.is_running())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(100));
    ASSERT_TRUE(program.is_running()) << "it ended before it could be killed";
    program.send(SIGKILL);
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.signal, SIGKILL);
  }
  EXPECT_FALSE(exists("m.npy"));
  arguments = base;
  arguments.insert(arguments.end(), {"--resume", path("run.part"), "--json", "-"});
  const Outcome resumed = run(arguments);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const Json report = Json::parse(resumed.out);
  EXPECT_EQ(digests(report), digests(whole));
  EXPECT_EQ(report["segments_traced"], whole["segments_traced"]);
  // Something was there, and something was left to do.
  const std::size_t at = resumed.err.find("holds ");
  ASSERT_NE(at, std::string::npos) << resumed.err;
  const long held = std::stol(resumed.err.substr(at + 6));
  EXPECT_GT(held, 0);
  EXPECT_LT(held, 3'000'000);
  EXPECT_EQ(report["devices"][0]["lanes"].get<long>(), 3'000'000 - held);
  // The checkpoint holds it all now: nothing is left to compute, and merge takes it.
  const Json again = report_of(with(base, "--resume", path("run.part")));
  EXPECT_EQ(digests(again), digests(whole));
  EXPECT_TRUE(again["devices"].empty());
  EXPECT_EQ(digests(report_of({"merge", path("run.part")})), digests(whole));

  // Cut short, damaged, something else, gone.
  const std::string bytes = read("run.part");
  write("cut.part", bytes.substr(0, bytes.size() / 2));
  expect_one_line_error(
      run(with(base, "--resume", path("cut.part"))), 3,
      "is cut short: " + std::to_string(bytes.size() / 2) + " bytes of " + std::to_string(bytes.size()));
  std::string damaged = bytes;
  damaged[bytes.size() - 1000] = static_cast<char>(damaged[bytes.size() - 1000] ^ 1);
  write("damaged.part", damaged);
  expect_one_line_error(run(with(base, "--resume", path("damaged.part"))), 3, "checksum");
  expect_one_line_error(run(with(base, "--resume", path("ground.ply"))), 3, "no part of a coverage run");
  expect_one_line_error(run(with(base, "--resume", path("none.part"))), 3, "does not exist");
  expect_one_line_error(run({"merge", path("cut.part")}), 3, "cut short");
  expect_one_line_error(run({"merge", path("none.part")}), 3, "cannot be read");
}

TEST_F(Pieces, ASignalLeavesACheckpointToGoOnFrom) {
  std::vector<std::string> arguments = with(coverage({"--map", path("m.npy")}), "--samples", "100G");
  arguments = with(with(arguments, "--checkpoint", path("run.part")), "--resume", path("run.part"));
  for (int round = 0; round < 2; ++round) {
    RunningProgram program(folder_, arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    ASSERT_TRUE(program.is_running());
    program.send(SIGTERM);
    const Outcome outcome = program.wait();
    expect_one_line_error(outcome, 143, "SIGTERM");
    EXPECT_NE(outcome.err.find("go on with --resume"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(round == 0 ? "does not exist yet" : "going on from there"), std::string::npos)
        << outcome.err;
    EXPECT_TRUE(exists("run.part"));
    EXPECT_FALSE(exists("m.npy"));
    EXPECT_TRUE(leftovers().empty());
  }
}

TEST_F(Pieces, TargetErrorIsTheSameForEverySplitAndThatOfAPlainRun) {
  const std::vector<std::string> base =
      with(coverage({"--target-error", "0.25dB", "--min-rows", "0"}), "--samples", "8k");
  const Json one = report_of(base);
  const Json& target = one["target_error"];
  EXPECT_EQ(target["met"], true);
  EXPECT_LE(target["reached_db"].get<double>(), 0.25);
  const int passes = target["passes"].get<int>();
  EXPECT_GT(passes, 8);
  EXPECT_EQ(target["samples"].get<int>(), passes * 1000);
  EXPECT_EQ(digests(report_of(with(base, "--devices", "sim:3"))), digests(one));
  EXPECT_EQ(digests(report_of(with(base, "--chunk", "3k"))), digests(one));
  // Stopped in the middle of a round, or with checkpoints all the time: the same rounds.
  EXPECT_EQ(
      digests(report_of(with(with(base, "--checkpoint", path("t.part")), "--checkpoint-every", "0.05"))),
      digests(one));
  EXPECT_EQ(digests(report_of(with(base, "--resume", path("t.part")))), digests(one));
  expect_one_line_error(run({"merge", path("t.part")}), 3, "--target-error");
  const Json plain = report_of(with(with(coverage({}), "--samples", std::to_string(passes * 1000)),
                                    "--passes", std::to_string(passes)));
  EXPECT_EQ(digests(plain), digests(one));
  EXPECT_FALSE(plain.contains("target_error"));
  // One that cannot be met ends at 1024 passes and says so.
  const Json never = report_of(with(with(base, "--target-error", "0.000001dB"), "--samples", "80"));
  EXPECT_EQ(never["target_error"]["met"], false);
  EXPECT_EQ(never["target_error"]["passes"], 1024);
  EXPECT_NE(never["warnings"].dump().find("is not met"), std::string::npos);
}

TEST_F(Pieces, PerTransmitterWritesOneMapEach) {
  const std::vector<std::string> two{"--tx", "0,-20,ground+8.5"};
  const Json together = map_of(two);
  std::vector<std::string> more = two;
  more.insert(more.end(), {"--per-tx", "--map", path("m.npy"), "--error-map", path("e.npy"), "--count-map",
                           path("c.npy")});
  const Json each = map_of(more);
  EXPECT_EQ(digests(each), digests(together)) << "the digest is that of the sum";
  EXPECT_EQ(each["transmitters"][1]["position"], Json({0.0, -20.0, 8.5}));
  for (const char* name : {"m.npy", "e.npy", "c.npy"}) {
    const std::string bytes = read(name);
    EXPECT_NE(bytes.find("'shape': (2, 20, 25)"), std::string::npos) << bytes.substr(0, 100);
    EXPECT_EQ(bytes.size() % 64, (2 * 500 * 8) % 64u);
  }
  // Each map is that of the transmitter alone with the same lanes: tx 1's has other cells than tx 0's.
  EXPECT_NE(each["transmitters"][0]["digest"], each["transmitters"][1]["digest"]);
  std::vector<std::string> parts = two;
  parts.insert(parts.end(), {"--per-tx", "--lanes", ":30001", "--partial", path("a.part")});
  ASSERT_EQ(run(coverage(parts)).code, 0);
  parts = two;
  parts.insert(parts.end(), {"--per-tx", "--lanes", "30001:", "--partial", path("b.part")});
  ASSERT_EQ(run(coverage(parts)).code, 0);
  const Json joined = report_of({"merge", path("b.part"), path("a.part"), "--map", path("mm.npy")});
  EXPECT_EQ(digests(joined), digests(each));
  EXPECT_EQ(joined["transmitters"], each["transmitters"]);
  EXPECT_EQ(read("mm.npy"), read("m.npy"));
}

TEST_F(Pieces, ATransmitterThatReachesLittleIsNamedAlsoAmongOthers) {
  // Inside the box, a solid that nothing leaves: it reaches parts of cells whose middles are outside.
  const Json report = map_of({"--tx", "20,20,10"});
  std::string all = report["warnings"].dump();
  EXPECT_NE(all.find("transmitter 1 (20, 20, 10) is inside a solid: shape 'box' is 10.00 m above it"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("transmitter 1 (20, 20, 10) reaches 10 of 480 open cells (2.1 %)"), std::string::npos)
      << all;
  EXPECT_EQ(all.find("transmitter 0"), std::string::npos) << all;
  EXPECT_EQ(map_of({"--tx", "20,20,10", "--per-tx"})["warnings"], report["warnings"]);
}

TEST_F(Pieces, WhatDoesNotGoTogetherIsRefusedByName) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> bad{
      {{"--lanes", "0:100", "--accumulation", "fast"}, "--lanes needs --accumulation exact"},
      {{"--partial", path("p"), "--accumulation", "ordered"}, "--partial needs --accumulation exact"},
      {{"--checkpoint", path("p"), "--accumulation", "fast"}, "--checkpoint needs --accumulation exact"},
      {{"--resume", path("p"), "--accumulation", "fast"}, "--resume needs --accumulation exact"},
      {{"--target-error", "1dB", "--accumulation", "fast"}, "--target-error needs --accumulation exact"},
      {{"--target-error", "1dB", "--lanes", "0:100"}, "--target-error and --lanes exclude"},
      {{"--target-error", "1dB", "--partial", path("p")}, "--target-error and --partial exclude"},
      {{"--target-error", "1dB", "--passes", "1"}, "two passes"},
      {{"--target-error", "-1dB"}, "above zero"},
      {{"--target-error", "loud"}, "--target-error"},
      {{"--lanes", "0:100", "--error-map", path("e")}, "--error-map"},
      {{"--lanes", "100"}, "A:B"},
      {{"--lanes", "1:2:3"}, "A:B"},
      {{"--lanes", "100:100"}, "empty"},
      {{"--lanes", "0:50k"}, "40000 lanes"},
      {{"--lanes", "40k:"}, "40000 lanes"},
      {{"--checkpoint", path("p"), "--checkpoint-every", "0"}, "--checkpoint-every"},
      {{"--checkpoint", path("none/p")}, "--checkpoint"},
      {{"--partial", path("p"), "--map", path("p")}, "same file"}};
  for (const auto& [more, part] : bad) expect_one_line_error(run(coverage(more)), 2, part);
  expect_one_line_error(run({"merge"}), 2, "merge needs");
  ASSERT_EQ(run(coverage({"--lanes", "0:9000", "--partial", path("p")})).code, 0);
  expect_one_line_error(run(coverage({"--lanes", "0:5000", "--resume", path("p")})), 3,
                        "more than --lanes 0:5000");
}

}  // namespace
}  // namespace shardwise::test
