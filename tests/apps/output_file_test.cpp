#include "output_file.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

class OutputFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "shardwise-output-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  static std::string read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(name).rdbuf();
    return text.str();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(OutputFile, NothingShowsBeforeCommit) {
  OutputSet outputs;
  outputs.stage(path("a"), "one");
  outputs.stage(path("b"), "two");
  EXPECT_FALSE(fs::exists(path("a")));
  outputs.commit();
  EXPECT_EQ(read(path("a")), "one");
  EXPECT_EQ(read(path("b")), "two");
  EXPECT_EQ(files(), 2u);
}

TEST_F(OutputFile, WithoutCommitNothingIsLeft) {
  { std::ofstream(path("a")) << "old"; }
  {
    OutputSet outputs;
    outputs.stage(path("a"), "new");
  }
  EXPECT_EQ(read(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, FailureOfOneLeavesTheOthersOut) {
  {
    OutputSet outputs;
    outputs.stage(path("a"), "one");
    try {
      outputs.stage("/dev/full", std::string(1 << 16, 'x'));
      FAIL() << "a full device takes nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::io);
      EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos);
    }
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFile, CheckFindsWhatCannotBeWritten) {
  check_output(path("fine"), "--map");
  EXPECT_EQ(files(), 0u);
  for (const std::string& bad : {path("none/file"), folder_.string(), std::string()}) {
    try {
      check_output(bad, "--map");
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      EXPECT_NE(std::string(error.what()).find("--map"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace shardwise::program
