// shardwise solve with files: arrays in, pictures and states out, and what is wrong with them.

#include <signal.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;

class CliSolveFiles : public ProgramTest {
 protected:
  Json report(std::vector<std::string> words) {
    words.insert(words.begin(), "solve");
    words.insert(words.end(), {"--json", path("report.json"), "--quiet"});
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? Json::parse(read("report.json")) : Json();
  }
  void refused(std::vector<std::string> words, int code, const std::string& part) {
    words.insert(words.begin(), "solve");
    words.insert(words.end(), {"--devices", "host:1", "--quiet"});
    expect_one_line_error(run(words), code, part);
  }
  /// How often a trace has the name.
  int launches(const std::string& file, const std::string& name) {
    const Json trace = Json::parse(read(file));
    int count = 0;
    for (const Json& event : trace["traceEvents"]) count += event["name"] == name ? 1 : 0;
    return count;
  }
  /// An NPY file of doubles in the order that they are given.
  void npy(const std::string& name, const std::vector<int>& shape, const std::vector<double>& values,
           bool fortran = false, const std::string& type = "<f8") {
    std::string sizes;
    for (const int n : shape) sizes += std::to_string(n) + ", ";
    std::string header = "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
                         ", 'shape': (" + sizes + "), }";
    while ((header.size() + 11) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes = "\x93NUMPY";
    bytes += '\x01';
    bytes += '\x00';
    bytes += static_cast<char>(header.size() & 0xff);
    bytes += static_cast<char>(header.size() >> 8);
    bytes += header;
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    write(name, bytes);
  }
};

TEST_F(CliSolveFiles, ArraysAreTheFormulasTheyHold) {
  // f = x + 10 y + 100 z on 3 x 4 x 2 cells, in both orders; the face z- has 1 + x + 10 y.
  const auto centre = [](int i, int n) { return (i + 0.5) / n; };
  std::vector<double> c, f, wall;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      wall.push_back(1 + centre(i, 3) + 10 * centre(j, 4));
      for (int k = 0; k < 2; ++k) c.push_back(centre(i, 3) + 10 * centre(j, 4) + 100 * centre(k, 2));
    }
  for (int k = 0; k < 2; ++k)
    for (int j = 0; j < 4; ++j)
      for (int i = 0; i < 3; ++i) f.push_back(centre(i, 3) + 10 * centre(j, 4) + 100 * centre(k, 2));
  npy("c.npy", {3, 4, 2}, c);
  npy("f.npy", {3, 4, 2}, f, true);
  npy("wall.npy", {3, 4}, wall);
  npy("k.npy", {3, 4, 2}, std::vector<double>(24, 2.0));
  const std::vector<std::string> base{"diffusion", "--size", "3x4x2", "--devices",
                                      "host:1",    "--rtol", "1e-12"};
  const auto solve = [&](const std::string& rhs, const std::string& wall_value, const std::string& kappa) {
    std::vector<std::string> words = base;
    words.insert(words.end(), {"--rhs", rhs, "--bc", "z-:dirichlet=" + wall_value, "--kappa", kappa,
                               "--field", path("u.npy")});
    report(words);
    const std::string bytes = read("u.npy");
    std::vector<double> u(24);
    EXPECT_GE(bytes.size(), 24 * sizeof(double));
    std::memcpy(u.data(), bytes.data() + bytes.size() - 24 * sizeof(double), 24 * sizeof(double));
    return u;
  };
  const std::vector<double> expected = solve("x+10*y+100*z", "1+x+10*y", "2");
  for (const auto& [rhs, wall_value, kappa] :
       {std::tuple{path("c.npy"), path("wall.npy"), path("k.npy")},
        std::tuple{path("f.npy"), std::string("1+x+10*y"), path("k.npy") + ",2," + path("k.npy")}}) {
    const std::vector<double> got = solve(rhs, wall_value, kappa);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_NEAR(got[i], expected[i], 1e-9 * std::abs(expected[i]));
  }
}

TEST_F(CliSolveFiles, KappaHasADirection) {
  // -(4 u_xx + u_yy) = f: twice the length in x is the same problem for kappa 1.
  const Json stretched = report({"diffusion", "--size", "16x16", "--extent", "2x1", "--kappa", "4,1", "--rhs",
                                 "x/2+y", "--devices", "host:1"});
  const Json plain = report({"poisson", "--size", "16x16", "--rhs", "x+y", "--devices", "host:1"});
  EXPECT_EQ(stretched["iterations"], plain["iterations"]);
  EXPECT_NEAR(stretched["true_residual"].get<double>(), plain["true_residual"].get<double>(), 1e-7);
}

TEST_F(CliSolveFiles, RefusesArraysThatDoNotFit) {
  const std::vector<double> ones(24, 1.0);
  npy("reversed.npy", {2, 4, 3}, ones);
  npy("other.npy", {4, 3, 2}, ones);
  npy("cut.npy", {3, 4, 2}, std::vector<double>(23, 1.0));
  npy("complex.npy", {3, 4, 2}, std::vector<double>(48, 1.0), false, "<c16");
  npy("none.npy", {0, 4}, {});
  std::vector<double> bad = ones;
  bad[1] = std::nan("");
  npy("nan.npy", {3, 4, 2}, bad);
  bad[1] = -3;
  npy("negative.npy", {3, 4, 2}, bad);
  npy("face.npy", {4, 3}, std::vector<double>(12, 1.0));
  write("empty.npy", "");
  const auto rhs = [&](const std::string& name, const std::string& part) {
    refused({"poisson", "--size", "3x4x2", "--rhs", path(name)}, 3, part);
  };
  rhs("reversed.npy", "save the transpose");
  rhs("other.npy", "the shape 4 x 3 x 2, the grid 3 x 4 x 2");
  rhs("cut.npy", "bytes of data");
  rhs("complex.npy", "<c16");
  rhs("none.npy", "size 0");
  rhs("empty.npy", "no NPY file");
  rhs("nan.npy", "nan at cell 12");  // C order: (0, 0, 1)
  refused({"diffusion", "--size", "3x4x2", "--kappa", path("negative.npy")}, 3, "is -3 at cell 12");
  refused({"poisson", "--size", "3x4x2", "--bc", "z-:dirichlet=" + path("face.npy")}, 3, "the face 3 x 4");
}

TEST_F(CliSolveFiles, RefusesWordsThatMeanNothing) {
  refused({"poisson", "--size", "8", "--rhs", ""}, 2, "--rhs is empty");
  refused({"poisson", "--size", "8x8", "--rhs", "z"}, 2, "depends on z");
  refused({"poisson", "--size", "8x8", "--rhs", "t"}, 2, "depends on t");
  refused({"poisson", "--size", "8", "--rhs", "1/0"}, 2, "inf at cell (0, 0, 0)");
  refused({"poisson", "--size", "8", "--bc", "x-:dirichlet=log(-1)"}, 2, "nan");
  refused({"poisson", "--size", "8", "--bc", "x-:dirichlet=1", "--bc", "x-:neumann=1"}, 2,
          "condition already");
  refused({"diffusion", "--size", "8x8", "--kappa", "1,2,3"}, 2, "3 values for 2 dimensions");
  refused({"diffusion", "--size", "8x8", "--kappa", "1,"}, 2, "empty entry");
  refused({"poisson", "--size", "8x8x8", "--slice", "z=0"}, 2, "--png");
  refused({"poisson", "--size", "8x8x8", "--slice", "z=3", "--png", path("a.png")}, 2, "from 0 to 1");
  refused({"poisson", "--size", "8x8", "--slice", "z=0", "--png", path("a.png")}, 2, "'z=0'");
  refused({"poisson", "--size", "8", "--residuals", "r.txt"}, 2, ".csv or .png");
  refused({"poisson", "--size", "8", "--checkpoint", path("c")}, 2, "--guess");
  refused({"heat", "--size", "8", "--steps", "2", "--every", "1"}, 2, "--checkpoint");
}

TEST_F(CliSolveFiles, DrawsPlanesLinesAndResiduals) {
  report({"poisson", "--size", "12x10x8", "--rhs", "1", "--devices", "host:1", "--png", path("plane.png"),
          "--slice", "y=0.3", "--residuals", path("r.png"), "--residuals", path("r.csv"), "--field",
          path("u.npy"), "--field", path("u.vti")});
  report({"poisson", "--size", "12", "--rhs", "1", "--devices", "host:1", "--png", path("line.png")});
  for (const char* name : {"plane.png", "r.png", "line.png"}) {
    const std::string bytes = read(name);
    EXPECT_TRUE(bytes.starts_with("\x89PNG\r\n")) << name;
    EXPECT_GT(bytes.size(), 5000u) << name;
  }
  EXPECT_TRUE(exists("r.csv") && exists("u.npy") && exists("u.vti"));
}

TEST_F(CliSolveFiles, ASingularProblemSaysWhatItTookOut) {
  const std::vector<std::string> words{"poisson",     "--size",       "16x16", "--rhs",        "2+x",
                                       "--bc",        "x-:neumann=0", "--bc",  "x+:neumann=0", "--bc",
                                       "y-:periodic", "--devices",    "host:1"};
  const Json r = report(words);
  EXPECT_NEAR(r["removed_mean"].get<double>(), 2.5, 1e-12);
  ASSERT_EQ(r["warnings"].size(), 1u);
  EXPECT_EQ(r["converged"], true);
  std::vector<std::string> consistent = words;
  consistent[4] = "x-0.5";
  EXPECT_EQ(report(consistent)["removed_mean"], 0);
}

const std::vector<std::string> heat{"heat",           "--size",   "40x30",       "--initial",
                                    "sin(5*x)*y",     "--source", "cos(30*t)*x", "--bc",
                                    "x-:dirichlet=1", "--steps",  "300"};

TEST_F(CliSolveFiles, RestartsHaveTheBitsOfOneRun) {
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words = heat;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const std::string precision : {"double", "float"}) {
    const Json whole = report(with({"--devices", "host:1", "--precision", precision}));
    std::vector<std::string> half = with(
        {"--devices", "host:2x1", "--parts", "3", "--precision", precision, "--checkpoint", path(precision)});
    half[std::find(half.begin(), half.end(), "300") - half.begin()] = "117";
    report(half);
    const Json rest = report(
        with({"--devices", "sim:2", "--precision", precision, "--restart", path(precision), "--verify"}));
    EXPECT_EQ(rest["first_step"], 117);
    EXPECT_EQ(rest["digest"], whole["digest"]);
    EXPECT_EQ(rest["verify"]["equal"], true);
    // Done already: nothing is left to do, and the field is there.
    std::vector<std::string> done = half;
    done.insert(done.end(), {"--restart", path(precision)});
    EXPECT_EQ(report(done)["first_step"], 117);
  }
  std::vector<std::string> other = with({"--restart", path("double")});
  other[2] = "40x31";
  refused(other, 3, "cells is [40,30] there, and [40,31] here");
  other[2] = "40x30";
  other[4] = "0";  // the state replaces it
  other[6] = "0";
  refused(other, 3, "source is");
  refused(with({"--restart", path("nowhere")}), 3, "does not exist");
  std::vector<std::string> fewer = with({"--restart", path("double")});
  fewer[std::find(fewer.begin(), fewer.end(), "300") - fewer.begin()] = "100";
  refused(fewer, 2, "at step 117 already");
  std::string bytes = read("double");
  write("cut", bytes.substr(0, bytes.size() - 9));
  refused(with({"--restart", path("cut")}), 3, "cut short");
  bytes[bytes.size() / 2] ^= 1;
  write("flipped", bytes);
  refused(with({"--restart", path("flipped")}), 3, "checksum");
  write("text", "not a state");
  refused(with({"--restart", path("text")}), 3, "no state of a solve");
}

/// Killed without a word, or asked to stop: the same command line goes on, to the same bits.
TEST_F(CliSolveFiles, AKilledRunGoesOnWithTheSameCommandLine) {
  std::vector<std::string> words = heat;
  words[2] = "160x120";
  words[6] = "x";
  words.back() = "20000";
  words.insert(words.begin(), "solve");
  words.insert(words.end(), {"--devices", "host:1", "--scheme", "euler", "--quiet"});
  std::vector<std::string> whole = words;
  whole.insert(whole.end(), {"--json", path("whole.json")});
  ASSERT_EQ(run(whole).code, 0);
  words.insert(words.end(), {"--checkpoint", path("state"), "--every", "100", "--restart", path("state"),
                             "--json", path("resumed.json")});
  int stopped = 0;
  for (const int number : {SIGKILL, SIGTERM, SIGKILL}) {
    RunningProgram program(folder_, words);
    for (int waited = 0; waited < 100 && !exists("state"); ++waited)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    if (!program.is_running()) continue;
    program.send(number);
    const Outcome outcome = program.wait();
    if (outcome.signal != 0 || outcome.code == 143) ++stopped;
    EXPECT_FALSE(exists("resumed.json"));
  }
  EXPECT_GE(stopped, 1) << "every run was over before the signal";
  ASSERT_EQ(run(words).code, 0);
  const Json resumed = Json::parse(read("resumed.json"));
  EXPECT_GT(resumed["first_step"], 0);
  EXPECT_EQ(resumed["digest"], Json::parse(read("whole.json"))["digest"]);
}

// A plan in times: what a step sends is exact, more devices are faster, a slow one shows, and nothing runs.
TEST_F(CliSolveFiles, PlansHaveTimes) {
  const auto plan = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "--dry-run");
    return report(words);
  };
  const Json step = plan({"heat", "--size", "64x64x64", "--steps", "10", "--scheme", "rk4", "--devices",
                          "sim:2xh200", "--trace", path("plan.json")});
  EXPECT_EQ(step["estimate"]["of"], "a step");
  EXPECT_GT(step["estimate"]["seconds"], 0);
  for (const Json& device : step["devices"]) {
    EXPECT_EQ(device["bytes_out"], 4 * 64 * 64 * 8) << "a plane for each of four stages";
    EXPECT_GT(device["busy_s"], 0);
    EXPECT_LE(device["busy_s"], step["estimate"]["seconds"]);
  }
  const int planned = launches("plan.json", "apply Laplacian");
  EXPECT_EQ(planned % 8, 0);
  EXPECT_GE(planned, 4 * 2);

  const auto seconds = [&](std::vector<std::string> more) {
    // More than many a host has: what is planned is another machine.
    std::vector<std::string> words{"poisson", "--size", "1024x1024x1024"};
    words.insert(words.end(), more.begin(), more.end());
    return plan(words)["estimate"]["seconds"].get<double>();
  };
  const double one = seconds({"--devices", "sim:1xh200"}), eight = seconds({"--devices", "sim:8xh200"});
  EXPECT_NEAR(one, 8 * 550e-6, 8 * 10e-6) << "512^3 were measured";
  EXPECT_GT(one / eight, 6);
  EXPECT_LE(one / eight, 8);
  EXPECT_GT(seconds({"--devices", "sim:8xh200", "--sim-faults", "device 5 slow 8"}), 5 * eight);
  // Thin slabs wait for their neighbours.
  EXPECT_GT(seconds({"--devices", "sim:64xh200-pcie"}), 2 * seconds({"--devices", "sim:64xh200"}));
}

TEST_F(CliSolveFiles, ARunHasATrace) {
  report({"heat", "--size", "16x16x16", "--steps", "3", "--scheme", "euler", "--devices", "sim:2", "--trace",
          path("run.json")});
  EXPECT_EQ(launches("run.json", "apply Laplacian"), 3 * 2) << "a step is one application on each device";
  refused({"poisson", "--size", "8", "--backend", "serial", "--trace", path("x.json")}, 2,
          "leave one of them out");
}

}  // namespace
}  // namespace shardwise::test
