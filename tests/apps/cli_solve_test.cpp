// shardwise solve, as a user runs it.

#include <nlohmann/json.hpp>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;

class CliSolve : public ProgramTest {
 protected:
  /// `solve` with these words and --json report.json.
  Json report(std::vector<std::string> words) {
    words.insert(words.begin(), "solve");
    words.insert(words.end(), {"--json", path("report.json"), "--quiet"});
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(read("report.json")) : Json();
  }
};

TEST_F(CliSolve, OneDigestForEveryPartition) {
  const std::vector<std::string> problem{
      "diffusion",   "--size",           "12x10x11", "--kappa",          "1+x*y", "--rhs",       "sin(3*x)-z",
      "--bc",        "x-:dirichlet=1+y", "--bc",     "x+:robin=2,1,0.5", "--bc",  "y-:periodic", "--bc",
      "z+:flux=0.3", "--preconditioner", "jacobi"};
  std::string digest;
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--backend", "serial"},
                                             {"--devices", "host:1", "--parts", "5"},
                                             {"--devices", "host:2x1", "--parts", "3"},
                                             {"--devices", "sim:2", "--process-grid", "2x1x2"},
                                             {"--backend", "serial", "--process-grid", "2x2x2"}}) {
    std::vector<std::string> words = problem;
    words.insert(words.end(), more.begin(), more.end());
    const Json r = report(words);
    ASSERT_TRUE(r.contains("digest"));
    EXPECT_EQ(r["converged"], true);
    EXPECT_LE(r["true_residual"], r["tolerance"]);
    if (digest.empty()) digest = r["digest"];
    EXPECT_EQ(r["digest"], digest) << more.back();
  }
}

TEST_F(CliSolve, MultigridNeedsFewIterationsAndHasOneDigest) {
  const std::vector<std::string> problem{"poisson",         "--size",           "32x32x32", "--rhs",
                                         "step(x-0.3)-y*z", "--preconditioner", "multigrid"};
  std::string digest;
  for (const char* parts : {"1", "3", "5"}) {
    std::vector<std::string> words = problem;
    words.insert(words.end(), {"--devices", "host:1", "--parts", parts});
    const Json r = report(words);
    ASSERT_TRUE(r.contains("digest"));
    EXPECT_LE(r["iterations"], 15);
    if (digest.empty()) digest = r["digest"];
    EXPECT_EQ(r["digest"], digest) << parts;
  }
}

TEST_F(CliSolve, HeatReachesAStraightLine) {
  const Json r = report({"heat", "--size", "16", "--bc", "x-:dirichlet=1", "--bc", "x+:dirichlet=3",
                         "--steps", "1500", "--devices", "host:2x1", "--field", path("u.npy"), "--verify"});
  EXPECT_EQ(r["verify"]["equal"], true);
  EXPECT_EQ(r["parts"], 2);
  EXPECT_EQ(r["exchanges_per_apply"], 1);
  // u = 1 + 2 x solves -u'' = 0 with these walls.
  const Json again = report({"poisson", "--size", "16", "--bc", "x-:dirichlet=1", "--bc", "x+:dirichlet=3",
                             "--guess", path("u.npy"), "--rtol", "1e-6", "--devices", "host:1"});
  EXPECT_EQ(again["iterations"], 0) << "the steady state of heat is the solution";
}

TEST_F(CliSolve, WritesVtkAndResiduals) {
  report({"poisson", "--size", "6x5", "--rhs", "1", "--field", path("u.vti"), "--residuals", path("r.csv"),
          "--devices", "host:1"});
  EXPECT_NE(read("u.vti").find("WholeExtent=\"0 6 0 5 0 1\""), std::string::npos);
  EXPECT_TRUE(read("r.csv").starts_with("iteration,residual\n0,"));
}

TEST_F(CliSolve, RefusesByName) {
  const auto refused = [&](std::vector<std::string> words, int code, const std::string& part) {
    words.insert(words.begin(), "solve");
    expect_one_line_error(run(words), code, part);
  };
  refused({"poison", "--size", "4"}, 2, "'poisson'");
  refused({"poisson"}, 2, "--size is missing");
  refused({"poisson", "--size", "4x4x4x4"}, 2, "4 dimensions");
  refused({"poisson", "--size", "8", "--rhs", "sin(x"}, 2, "')' is expected at character 6");
  refused({"poisson", "--size", "8", "--rhs", "foo(x)"}, 2, "a known name");
  refused({"poisson", "--size", "8", "--bc", "y-:dirichlet=1"}, 2, "x- or x+");
  refused({"poisson", "--size", "8", "--bc", "x-:dirichlat=1"}, 2, "dirichlet");
  refused({"poisson", "--size", "8", "--kappa", "2"}, 2, "--kappa is for diffusion and heat");
  refused({"diffusion", "--size", "8", "--kappa", "x-0.5"}, 2, "positive");
  refused({"heat", "--size", "8"}, 2, "--steps is missing");
  refused({"heat", "--size", "8", "--steps", "3", "--dt", "1"}, 2, "stability limit");
  refused({"poisson", "--size", "8", "--parts", "9", "--devices", "host:1"}, 2, "at most 8");
  refused({"poisson", "--size", "8", "--guess", path("none.npy")}, 3, "none.npy");
  // What was reached is written and printed before the refusal.
  const Outcome stopped = run({"solve", "poisson", "--size", "64x64", "--rhs", "x", "--max-iterations", "2",
                               "--devices", "host:1", "--quiet", "--field", path("u.npy")});
  EXPECT_EQ(stopped.code, 1);
  EXPECT_NE(stopped.err.find("maximum after 2 iterations"), std::string::npos) << stopped.err;
  EXPECT_TRUE(exists("u.npy"));
  refused({"poisson", "--size", "8", "--field", "u.txt"}, 2, ".vti");
}

}  // namespace
}  // namespace shardwise::test
