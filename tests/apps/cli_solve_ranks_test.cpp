// `solve` under mpirun: the files of one process, a line a rank, refusals alike on all ranks.

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;

class SolveRanks : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    prepare_for_ranks("30");
  }
  Outcome solve(int ranks, const std::vector<std::string>& arguments) const {
    std::vector<std::string> words{"-n", std::to_string(ranks), SHARDWISE_RANK_PROGRAM, "solve"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.emplace_back("--quiet");
    return run(words);
  }
  static void expect_once(const Outcome& outcome, const std::string& words) {
    const std::size_t at = outcome.err.find(words);
    EXPECT_NE(at, std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("shardwise: error: ", outcome.err.find("shardwise: error: ") + 1),
              std::string::npos)
        << "more than one rank says so:\n"
        << outcome.err;
  }
};

TEST_F(SolveRanks, TheFieldIsThatOfOneProcess) {
  const auto arguments = [&](const std::string& name) {
    return std::vector<std::string>{"diffusion",         "--size",    "24x10x20",          "--kappa",
                                    "1+10*step(x-0.5)",  "--mean",    "harmonic",          "--rhs",
                                    "sin(3*x)*y-z",      "--bc",      "x-:dirichlet=1",    "--bc",
                                    "y-:periodic",       "--devices", "host:1x1",          "--preconditioner",
                                    "multigrid",         "--field",   path(name + ".npy"), "--json",
                                    path(name + ".json")};
  };
  ASSERT_EQ(solve(1, arguments("one")).code, 0);
  const Json one = Json::parse(read("one.json"));
  EXPECT_FALSE(one.contains("ranks"));
  for (const int ranks : {2, 3, 4}) {
    const std::string name = "on" + std::to_string(ranks);
    std::vector<std::string> command = arguments(name);
    command.emplace_back("--verify");
    if (ranks == 4) command.insert(command.end(), {"--process-grid", "2x1x0", "--route", "staged"});
    const Outcome outcome = solve(ranks, command);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(read(name + ".npy"), read("one.npy"));
    const Json report = Json::parse(read(name + ".json"));
    EXPECT_EQ(report["digest"], one["digest"]);
    EXPECT_EQ(report["history"], one["history"]);
    EXPECT_TRUE(report["verify"]["equal"].get<bool>());
    EXPECT_EQ(report["parts"], ranks);
    ASSERT_EQ(report["ranks"].size(), static_cast<std::size_t>(ranks));
    std::int64_t cells = 0;
    for (const Json& rank : report["ranks"]) {
      cells += rank["cells"].get<std::int64_t>();
      EXPECT_GT(rank["exchange_bytes_out"].get<std::int64_t>(), 0);
      EXPECT_GT(rank["bytes_out"].get<std::int64_t>(), 0);
    }
    EXPECT_EQ(cells, 24 * 10 * 20);
    // Slabs in z: one plane of 24 x 10 doubles at the first rank.
    if (ranks < 4) {
      EXPECT_EQ(report["ranks"][0]["exchange_bytes_out"], 24 * 10 * 8);
    }
  }
  EXPECT_TRUE(leftovers().empty());
}

TEST_F(SolveRanks, InputsAndStatesAreReadOnce) {
  const std::vector<std::string> heat{"heat",       "--size",    "16x12",   "--source",
                                      "0.1*cos(t)", "--devices", "host:1x1"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = heat;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(solve(1, with({"--steps", "30", "--field", path("u.npy")})).code, 0);
  ASSERT_EQ(solve(2, with({"--steps", "10", "--checkpoint", path("state")})).code, 0);
  ASSERT_EQ(solve(3, with({"--steps", "30", "--restart", path("state"), "--field", path("v.npy")})).code, 0);
  EXPECT_EQ(read("v.npy"), read("u.npy"));
  const std::vector<std::string> poisson{"poisson",     "--size",    "16x12",   "--rhs",
                                         path("u.npy"), "--devices", "host:1x1"};
  const auto to = [&](const char* name) {
    std::vector<std::string> all = poisson;
    all.insert(all.end(), {"--field", path(name)});
    return all;
  };
  ASSERT_EQ(solve(1, to("a.npy")).code, 0);
  ASSERT_EQ(solve(2, to("b.npy")).code, 0);
  EXPECT_EQ(read("a.npy"), read("b.npy"));
}

TEST_F(SolveRanks, RefusalsAreAlike) {
  expect_ranks_to_end_together();
  const std::vector<std::string> poisson{"poisson", "--size", "16x12", "--field", path("u.npy")};
  const auto refused = [&](const std::vector<std::string>& more, int code, const std::string& words) {
    std::vector<std::string> all = poisson;
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = solve(2, all);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    expect_once(outcome, words);
    EXPECT_FALSE(exists("u.npy"));
  };
  refused({"--parts", "3"}, 2, "--parts 3");
  refused({"--process-grid", "2x2"}, 2, "--process-grid has 4 parts");
  refused({"--backend", "serial"}, 2, "--backend serial");
  refused({"--devices", "host:2x1"}, 2, "uses one in this version");
  refused({"--rhs", path("missing.npy")}, 3, "missing.npy");
  refused({"--route", "sideways"}, 2, "--route");
  // Not converged: the outputs are there, the code says so.
  const Outcome outcome = solve(2, {"poisson", "--size", "64x64", "--rhs", "x", "--max-iterations", "3",
                                    "--field", path("u.npy"), "--devices", "host:1x1"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_TRUE(exists("u.npy"));
}

}  // namespace
}  // namespace shardwise::test
