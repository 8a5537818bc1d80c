// Small files of text: what is none of them, and what a failure leaves.

#include "runtime/small_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

namespace fs = std::filesystem;

class SmallFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "shardwise-small-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  void expect_refused(const std::string& file, const std::string& why) const {
    try {
      (void)read_small_file(file, "the script", "check its name");
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::data);
      EXPECT_EQ(error.what(), "the script: '" + file + "' cannot be read (" + why + "); check its name");
    }
  }
  fs::path folder_;
};

TEST_F(SmallFile, ReadsWhatItIs) {
  std::ofstream(path("empty"));
  EXPECT_EQ(read_small_file(path("empty"), "", ""), "");
  const std::string text = std::string(200'000, 'x') + std::string("\0\n", 2);
  std::ofstream(path("long"), std::ios::binary) << text;
  EXPECT_EQ(read_small_file(path("long"), "", ""), text);
}

TEST_F(SmallFile, WhatIsNoneIsRefusedAtOnce) {
  fs::create_directory(path("folder"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::ofstream(path("huge"));
  fs::resize_file(path("huge"), most_bytes_of_small_file + 1);
  expect_refused(path("none"), "No such file or directory");
  expect_refused(path("folder"), "it is no regular file");
  expect_refused(path("pipe"), "it is no regular file");
  expect_refused("/dev/zero", "it is no regular file");
  expect_refused(path("huge"), "it has over 64 MiB");
}

TEST_F(SmallFile, AFailureLeavesTheOldFile) {
  replace_small_file(path("file"), "old", "the record");
  // As on a full disk.
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {1000, limit.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(replace_small_file(path("file"), std::string(5000, 'x'), "the record"), Error);
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(read_small_file(path("file"), "", ""), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  replace_small_file(path("file"), "new", "the record");
  EXPECT_EQ(read_small_file(path("file"), "", ""), "new");
  fs::create_directory(path("folder"));
  EXPECT_THROW(replace_small_file(path("folder"), "x", "the record"), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

}  // namespace
}  // namespace shardwise
