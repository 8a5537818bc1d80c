// What `--dry-run` promises is what the run then does.

#include <nlohmann/json.hpp>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Plans : public ProgramTest {
 protected:
  /// The `peak_bytes` of all devices in the report of a command.
  std::vector<std::int64_t> peaks(const Words& words) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<std::int64_t> result;
    const Json report = Json::parse(outcome.out, nullptr, false);
    for (const Json& device : report.value("devices", Json::array())) result.push_back(device["peak_bytes"]);
    EXPECT_FALSE(result.empty());
    return result;
  }
};

TEST_F(Plans, TheirPeaksAreTheRunsPeaks) {
  const std::vector<Words> splits{{},
                                  {"--min-rows", "0"},
                                  {"--min-rows", "0", "--weights", "3,0,1"},
                                  {"--min-rows", "0", "--weights", "0,1,1"},  // a master that only merges
                                  {"--chunk", "7000"},
                                  {"--memory", "3M"}};
  const std::vector<Words> kinds{{},
                                 {"--accumulation", "fast"},
                                 {"--accumulation", "ordered"},
                                 {"--passes", "1"},
                                 {"--per-tx", "--tx", "20,10,15"},
                                 {"--lanes", "100:30000", "--partial", path("part")}};
  for (const char* devices : {"host:3x1", "sim:3"})
    for (std::size_t s = 0; s < splits.size(); ++s)
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        // Each kind meets each split, on one of the two sets of devices.
        if ((s + k) % 2 == (devices[0] == 's' ? 0u : 1u)) continue;
        Words words{"coverage", box_scene(), "--tx",      "-10,0,10", "--samples", "40k",
                    "--cell",   "4",         "--devices", devices,    "--json",    "-"};
        words.insert(words.end(), splits[s].begin(), splits[s].end());
        words.insert(words.end(), kinds[k].begin(), kinds[k].end());
        std::string text;
        for (const std::string& word : words) text += word + " ";
        SCOPED_TRACE(text);
        Words planned = words;
        planned.emplace_back("--dry-run");
        EXPECT_EQ(peaks(planned), peaks(words));
      }
}

// A plan is what the simulation then shows, on slow devices and links, too.
TEST_F(Plans, TakeAsLongAsTheSimulation) {
  const Words words{"coverage", box_scene(), "--tx",  "-10,0,10",   "--samples",
                    "40k",      "--devices", "sim:3", "--min-rows", "0"};
  double plain_s = 0;
  for (const char* faults :
       {"deadline 60", "device 1 slow 50", "link 2 0 slow 40", "device 1 launch 5 hangs"}) {
    SCOPED_TRACE(faults);
    Words all = words;
    all.insert(all.end(), {"--sim-faults", faults, "--json", path("r.json")});
    Words planned = all;
    planned.emplace_back("--dry-run");
    ASSERT_EQ(run(planned).code, 0);
    const double planned_s = Json::parse(read("r.json"))["estimate"]["seconds"];
    if (plain_s == 0) plain_s = planned_s;
    // In a plan nothing fails.
    if (std::string(faults).ends_with("hangs")) {
      EXPECT_EQ(planned_s, plain_s);
      continue;
    }
    ASSERT_EQ(run(all).code, 0);
    const double virtual_s = Json::parse(read("r.json"))["virtual_s"];
    EXPECT_NEAR(planned_s, virtual_s, 0.02 * virtual_s);
    EXPECT_TRUE(planned_s == plain_s || planned_s > 1.3 * plain_s) << planned_s << " of " << plain_s;
  }
}

// Times that no clock shows are said as what they are.
TEST_F(Plans, OfMachinesThatAreNeverDone) {
  write("slow.toml", "schema = 1\n[[devices]]\n[ns_per_item]\ndefault = 1e300\n");
  const Outcome plan = run({"coverage", box_scene(), "--tx", "-10,0,10", "--samples", "40k", "--devices",
                            "sim:" + path("slow.toml"), "--dry-run"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("estimated time: 4e+295 s, if"), std::string::npos) << plan.out;
}

// What it says of a solve is a lower bound, and a close one but for coarser grids.
TEST_F(Plans, CountLaunches) {
  Words words{"coverage", box_scene(),  "--tx", "-10,0,10",  "--samples", "40k",      "--devices",
              "host:2x1", "--min-rows", "0",    "--weights", "1,3",       "--dry-run"};
  EXPECT_NE(run(words).out.find("shared out over 2 devices, one launch on each\n"), std::string::npos);
  words.insert(words.end(), {"--chunk", "7000"});
  const std::string out = run(words).out;
  EXPECT_NE(out.find(", in 7 launches of about 7k rays, as --chunk says\n"), std::string::npos) << out;
  words = {"coverage", box_scene(), "--tx",   "-10,0,10", "--samples",
           "40k",      "--devices", "host:1", "--dry-run"};
  EXPECT_NE(run(words).out.find("one device computes everything, in one launch\n"), std::string::npos);
}

TEST_F(Plans, SolvesHoldWhatTheyWereToldToNeed) {
  const std::vector<Words> problems{
      {"poisson", "--rhs", "x"},
      {"poisson", "--rhs", "x", "--preconditioner", "jacobi", "--precision", "float"},
      {"poisson", "--rhs", "x", "--bc", "x-:neumann", "--preconditioner", "multigrid"},
      {"diffusion", "--rhs", "x", "--kappa", "1+x,1,2"},
      {"heat", "--steps", "2", "--source", "x"},
      {"heat", "--steps", "2", "--source", "x*t", "--scheme", "euler", "--kappa", "1+x"}};
  for (const Words& where : {Words{"--devices", "host:2x1"}, Words{"--devices", "sim:3", "--parts", "5"},
                             Words{"--backend", "serial"}})
    for (const Words& problem : problems) {
      Words words{"solve"};
      words.insert(words.end(), problem.begin(), problem.end());
      words.insert(words.end(), {"--size", "32x24x20", "--json", "-"});
      words.insert(words.end(), where.begin(), where.end());
      std::string text;
      for (const std::string& word : words) text += word + " ";
      SCOPED_TRACE(text);
      const Outcome run_of = run(words);
      words.emplace_back("--dry-run");
      const Outcome plan_of = run(words);
      ASSERT_EQ(plan_of.code, 0) << plan_of.err;
      const Json plan = Json::parse(plan_of.out), done = Json::parse(run_of.out, nullptr, false);
      ASSERT_FALSE(plan["devices"].empty());
      ASSERT_EQ(plan["devices"].size(), done["devices"].size());
      const bool multigrid = text.find("multigrid") != std::string::npos;
      std::int64_t all = 0;
      for (std::size_t d = 0; d < plan["devices"].size(); ++d) {
        const std::int64_t bytes = plan["devices"][d]["bytes"], peak = done["devices"][d]["peak_bytes"];
        EXPECT_LE(bytes, peak) << d;
        EXPECT_GE(static_cast<double>(bytes), (multigrid ? 0.4 : 0.75) * static_cast<double>(peak)) << d;
        EXPECT_GT(plan["devices"][d]["free_bytes"].get<std::int64_t>(), bytes);
        all += bytes;
      }
      EXPECT_GE(plan["host"]["bytes"].get<std::int64_t>(), all);
    }
}

TEST_F(Plans, SolvesThatCannotFitEndAlikeBeforeAnythingIsAllocated) {
  for (const Words& words :
       {Words{"solve", "poisson", "--size", "10000x10000x10000"},
        Words{"solve", "poisson", "--size", "10000x10000x10000", "--precision", "float"},
        Words{"solve", "diffusion", "--size", "1000000x1000000", "--kappa", "1+x", "--rhs", "y"},
        Words{"solve", "heat", "--size", "10000x10000x10000", "--bc", "x-:dirichlet=y", "--steps", "1"}}) {
    Words planned = words;
    planned.emplace_back("--dry-run");
    const Outcome plan = run(planned), real = run(words);
    expect_one_line_error(plan, 1, "of the host's memory for whole arrays");
    EXPECT_EQ(plan.err, real.err);
    EXPECT_EQ(real.code, 1);
  }
  // More than 64 bits hold.
  expect_one_line_error(run({"solve", "poisson", "--size", "2147483648x2147483648x2147483648", "--dry-run"}),
                        2, "at most 2^40 in all");
  // A device with less than the host.
  write("small.toml", "schema = 1\n[[devices]]\nmemory = \"1M\"\n");
  const Words words{"solve", "poisson", "--size", "32x32x32", "--devices", "sim:" + path("small.toml")};
  Words planned = words;
  planned.emplace_back("--dry-run");
  const Outcome plan = run(planned), real = run(words);
  expect_one_line_error(plan, 1, "cells need at least 2.00 MiB (2097152 bytes) on device");
  EXPECT_EQ(plan.err, real.err);
}

// The words of a plan: what it is of, and what to do with it.
TEST_F(Plans, SayWhatTheyAreOfAndWhatToDoNext) {
  const std::string text = run({"solve", "heat", "--size", "16x8x4", "--steps", "3", "--dt", "1e-4",
                                "--devices", "host:2x1", "--dry-run"})
                               .out;
  for (const char* part :
       {"plan of heat, nothing was run: 16 x 8 x 4 cells in 2 blocks (", "; 3 steps of 0.0001 in time\n",
        "To solve it, run 'shardwise solve' with the same"})
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  write("batch.jsonl", "{\"id\": \"a\", \"command\": [\"true\"]}\n");
  const std::string jobs = run({"jobs", path("batch.jsonl"), "--devices", "host:2x1", "--dry-run"}).out;
  for (const char* part : {"plan of 1 job, nothing was run\n", "busy for", "no other plan ends sooner",
                           "To run it, give -o DIR and leave out --dry-run."})
    EXPECT_NE(jobs.find(part), std::string::npos) << "'" << part << "' is not in: " << jobs;
}

// A step of heat solves nothing, so what ends a solver would be ignored.
TEST_F(Plans, OptionsOfOtherProblemsAreRefusedWithTheReason) {
  for (const Words& option : {Words{"--rtol", "1e-3"}, Words{"--atol", "0"}, Words{"--max-iterations", "5"},
                              Words{"--preconditioner", "none"}, Words{"--accumulation", "exact"}}) {
    Words words{"solve", "heat", "--size", "8x8", "--steps", "2"};
    words.insert(words.end(), option.begin(), option.end());
    expect_one_line_error(run(words), 2,
                          option.front() + " is for poisson and diffusion, whose solver iterates");
  }
  expect_one_line_error(run({"solve", "poisson", "--size", "8x8", "--scheme", "rk4"}), 2,
                        "--scheme is for heat");
  expect_one_line_error(run({"solve", "poisson", "--size", "8x8", "--mean", "harmonic"}), 2,
                        "--mean is for diffusion and heat");
}

}  // namespace
}  // namespace shardwise::test
