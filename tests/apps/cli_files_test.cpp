// Files that a command line names: which may be the same, and what becomes of links and closed streams.

#include <sys/wait.h>

#include <cstdlib>
#include <tuple>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

class Files : public ProgramTest {
 protected:
  /// The program in a shell, as SHARDWISE, with what is behind the command. Its exit code.
  int shell(const std::string& arguments) const {
    const int status = std::system(("'" SHARDWISE_PROGRAM "' " + arguments).c_str());  // NOLINT(cert-env33-c)
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(Files, WhatIsReadIsNotOverwritten) {
  const std::string scene = box_scene();
  const std::string before = read("scene.xml");
  write("m.toml", "[materials]\n");
  for (const char* option : {"--map", "--json", "--log-file", "--checkpoint"})
    expect_one_line_error(run(coverage({option, path("./scene.xml")})), 2, "which the command reads");
  expect_one_line_error(run(coverage({"--materials", path("m.toml"), "--json", path("m.toml")})), 2,
                        "which the command reads");
  expect_one_line_error(run({"scene", "dump", scene, "-o", scene}), 2, "--output would overwrite");
  // Files within a value.
  write("lab.toml", "schema = 1\n[[devices]]\ncount = 2\n");
  write("faults", "device 0 launch 9 fails\n");
  for (const auto& [option, value, file] :
       {std::tuple{"--devices", std::string("sim:").append(path("lab.toml")), "lab.toml"},
        std::tuple{"--sim-faults", std::string("@").append(path("faults")), "faults"}}) {
    const std::string before = read(file);
    expect_one_line_error(
        run({"calibrate", "coverage", scene, "--tx", "0,0,30", option, value, "-o", path(file)}), 2,
        "would overwrite '" + path(file) + "', which the command reads");
    EXPECT_EQ(read(file), before);
  }
  EXPECT_EQ(read("scene.xml"), before);
  EXPECT_EQ(read("m.toml"), "[materials]\n");
}

TEST_F(Files, OneFileUnderTwoNamesIsOneFile) {
  std::filesystem::create_directory(folder_ / "inner");
  expect_one_line_error(run(coverage({"--map", path("m"), "--json", path("inner/../m")})), 2,
                        "--map and --json name the same file");
  expect_one_line_error(run(coverage({"--checkpoint", path("k"), "--json", path("./k")})), 2, "same file");
  EXPECT_EQ(run(coverage({"--checkpoint", path("k"), "--partial", path("k")})).code, 0)
      << "a checkpoint that ends as a partial";
}

TEST_F(Files, EmptyNamesAreRefused) {
  for (const char* option : {"--map", "--png", "--json", "--partial", "--materials", "--memory"})
    expect_one_line_error(run(coverage({option, ""})), 2, std::string(option) + " is empty");
}

TEST_F(Files, ALinkStaysALink) {
  write("target.npy", "old");
  std::filesystem::create_symlink("target.npy", folder_ / "link.npy");
  std::filesystem::create_symlink("loop.npy", folder_ / "loop.npy");
  EXPECT_EQ(run(coverage({"--map", path("link.npy")})).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link.npy"));
  EXPECT_EQ(read("target.npy").substr(1, 5), "NUMPY");
  expect_one_line_error(run(coverage({"--map", path("loop.npy")})), 2, "leads back to itself");
}

TEST_F(Files, ClosedStreamsEndNoRun) {
  const std::string scene = box_scene();
  const std::string run = "coverage '" + scene +
                          "' --tx 0,0,30 --samples 10k --material concrete --devices host:1x1 --map '" +
                          path("m.npy") + "' >/dev/null ";
  EXPECT_EQ(shell(run + "2>&-"), 0);
  EXPECT_EQ(read("m.npy").substr(1, 5), "NUMPY") << "nothing that is said went into it";
  EXPECT_EQ(shell(run + "2>/dev/full"), 0);
  EXPECT_EQ(shell("scene info '" + path("none.xml") + "' 2>&-"), 3);
}

TEST_F(Files, ALogThatCannotBeWrittenIsTold) {
  const Outcome outcome = run(coverage({"--log-file", "/dev/full"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("warning: --log-file: '/dev/full' cannot be written"), std::string::npos)
      << outcome.err;
}

TEST_F(Files, AnOptionGivenTwiceShowsBothValues) {
  expect_one_line_error(run(coverage({"--cell", "4", "--cell", "5"})), 2, "'4' and '5'");
  expect_one_line_error(run({"plan", "devices"}), 2, "'devices' has nothing to plan");
}

}  // namespace
}  // namespace shardwise::test
