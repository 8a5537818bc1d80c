// Who owns a folder of results, and when it is taken over.

#include "run_folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "batch_file.hpp"
#include "output_file.hpp"
#include "report_file.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

class RunFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "shardwise-folder-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    RunFolder(path(), "jobs", false);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path() const { return (folder_ / "out").string(); }
  fs::path inner(const std::string& name) const { return folder_ / "out" / ".shardwise" / name; }
  /// As another process would leave it, last touched `seconds` ago.
  void leave(const fs::path& file, const ProcessIdentity& owner, long seconds = 0) const {
    std::ofstream(file) << json_text({{"schema", 1},
                                      {"host", owner.host},
                                      {"space", owner.space},
                                      {"process", owner.number},
                                      {"started", owner.started},
                                      {"since", "2026-01-31 12:00:00"}});
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    const timespec times[2] = {{now.tv_sec - seconds, 0}, {now.tv_sec - seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  }
  bool is_owned() const {
    try {
      RunFolder(path(), "jobs", false);
      return false;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("is owned by process "), std::string::npos) << error.what();
      return true;
    }
  }
  fs::path folder_;
};

constexpr long nobody = 1L << 30;  ///< above what the kernel gives

// Numbers of processes mean nothing in another container, which may have our host name.
TEST_F(RunFolders, AProcessOfAnotherContainerIsNotGone) {
  ProcessIdentity other = own_identity();
  ASSERT_FALSE(other.space.empty());
  other.number = nobody;
  leave(inner("lock"), other);
  EXPECT_FALSE(is_owned()) << "it is gone, and was of this container";
  other.space += "0";
  leave(inner("lock"), other);
  EXPECT_TRUE(is_owned());
  leave(inner("lock"), other, 120);
  EXPECT_FALSE(is_owned()) << "nobody has touched it for a while";
  leave(inner("lock"), other, -7200);
  EXPECT_FALSE(is_owned()) << "nor since the clock was set back";
}

// As in containers, where every program is process 1 or 7.
TEST_F(RunFolders, AnotherProcessOfOurNumberIsAnother) {
  RunFolder folder(path(), "jobs", true);
  ProcessIdentity other = own_identity();
  other.space += "0";
  leave(inner("claims/a"), other);
  EXPECT_FALSE(folder.claim("a"));
  EXPECT_TRUE(folder.owner_of("a").has_value());
}

TEST_F(RunFolders, ANumberThatIsAnothersByNowIsNoOwner) {
  ProcessIdentity other = own_identity();
  leave(inner("lock"), other);
  EXPECT_TRUE(is_owned());
  leave(inner("lock"), other, 120);
  EXPECT_TRUE(is_owned()) << "it runs, however slowly";
  other.started += "0";
  leave(inner("lock"), other);
  EXPECT_FALSE(is_owned());
}

// A process namespace without a /proc of its own: what is there is of other processes.
TEST(ProcessIdentities, AreNotReadFromAnothersProc) {
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(7);
    const pid_t inner = fork();
    if (inner == 0) {
      const ProcessIdentity self = own_identity();
      _exit(self.started.empty() && fate_of(self) == ProcessFate::unknown ? 0 : 1);
    }
    int status = 0;
    _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(outer, &status, 0), outer);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 7) GTEST_SKIP() << "no process namespace to be had here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(RunFolders, WhatWasTakenOverIsLeftToItsNewOwner) {
  ProcessIdentity other = own_identity();
  other.space += "0";
  {
    RunFolder folder(path(), "jobs", false);
    ASSERT_TRUE(folder.claim("a"));
    ASSERT_TRUE(folder.claim("b"));
    ASSERT_TRUE(folder.claim("c"));
    for (const char* file : {"lock", "claims/a", "claims/b"}) leave(inner(file), other);
    folder.give_up("a");
    EXPECT_TRUE(fs::exists(inner("claims/a")));
    folder.give_up("c");
    EXPECT_FALSE(fs::exists(inner("claims/c")));
  }
  EXPECT_TRUE(fs::exists(inner("claims/b")));
  EXPECT_TRUE(fs::exists(inner("lock")));
}

TEST_F(RunFolders, AClaimThatCannotBeWrittenTellsWhy) {
  RunFolder folder(path(), "jobs", false);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::string text;
  try {
    folder.claim("a");
  } catch (const Error& error) {
    text = error.what();
  }
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(text, "cannot write '" + inner("claims/a").string() +
                      "' (Too many open files); check the folder and the space left");
}

/// From here on these calls fail in this process, as where a file system does not know them.
bool refuse_calls(std::initializer_list<unsigned> numbers) {
  std::vector<sock_filter> filter{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const unsigned number : numbers) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Not "owned by nobody known".
TEST_F(RunFolders, AFileSystemThatCannotDecideIsNamed) {
  const pid_t process = fork();
  if (process == 0) {
#ifdef SYS_link
    const bool ready = refuse_calls({SYS_renameat2, SYS_linkat, SYS_link});
#else
    const bool ready = refuse_calls({SYS_renameat2, SYS_linkat});
#endif
    if (!ready) _exit(7);
    try {
      RunFolder(path(), "jobs", false);
    } catch (const Error& error) {
      const std::string text = error.what();
      const bool is_named = text.find("(Operation not permitted)") != std::string::npos &&
                            text.find("choose a folder on another file system") != std::string::npos;
      _exit(is_named && error.error_class() == ErrorClass::usage ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 7) GTEST_SKIP() << "calls cannot be refused here (seccomp)";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto files = fs::directory_iterator(inner(""));
  for (const auto& entry : files)
    EXPECT_EQ(entry.path().string().find(".part-"), std::string::npos) << entry.path();
}

TEST_F(RunFolders, ADamagedLockIsNobodysUntilItIsOld) {
  for (const char* text : {"", "{", "[1]", R"({"host": 3, "process": "x"})", "null"}) {
    std::ofstream(inner("lock")) << text;
    EXPECT_TRUE(is_owned()) << text;
  }
  fs::remove(inner("lock"));
}

TEST_F(RunFolders, ADamagedDescriptionIsNotOurs) {
  for (const char* text : {"", "{", "[1]", R"({"command": 3})"}) {
    std::ofstream(inner("folder.json")) << text;
    try {
      RunFolder(path(), "jobs", false);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      EXPECT_NE(std::string(error.what()).find("something else"), std::string::npos) << error.what();
    }
  }
}

// A program that was killed left it, and in a container the next one has the same number.
TEST_F(RunFolders, LeftTemporaryFilesAreNotInTheWay) {
  const std::string report = (folder_ / "report.json").string();
  for (int i = 0; i < 200; ++i)
    std::ofstream(report + ".part-" + std::to_string(getpid()) + "-" + std::to_string(i)) << "left";
  EXPECT_NO_THROW(check_output(report, "--json"));
  EXPECT_NE(temporary_name(report), temporary_name(report));
}

// What a killed program was about to write. Others may be writing what is new, or has a name of its own.
TEST_F(RunFolders, LeftPartsGoAfterAnHour) {
  const std::string name = fs::path(temporary_name(inner("claims/a").string())).filename();
  EXPECT_TRUE(is_temporary_name(name)) << name;
  const std::string long_name = std::string(200, 'x') + name.substr(name.find(".part-"));
  const std::vector<std::string> kept{"a", "b.part-3", "c.part-12-0123-4", "d.part-12-0123456789abcdef-",
                                      "e.part-1-2-0123456789abcdef-3"};
  for (const std::string& each : kept) {
    EXPECT_FALSE(is_temporary_name(each)) << each;
    leave(inner("claims/" + each), own_identity(), 4000);
  }
  leave(inner("claims/" + name), own_identity(), 4000);
  leave(inner("claims/" + long_name), own_identity(), 4000);
  const std::string fresh = fs::path(temporary_name("b")).filename();
  leave(inner("claims/" + fresh), own_identity(), 120);
  { RunFolder beside(path(), "jobs", true); }
  EXPECT_TRUE(fs::exists(inner("claims/" + name))) << "that is its owner's to do";
  RunFolder folder(path(), "jobs", false);
  EXPECT_FALSE(fs::exists(inner("claims/" + name)));
  EXPECT_FALSE(fs::exists(inner("claims/" + long_name)));
  EXPECT_TRUE(fs::exists(inner("claims/" + fresh)));
  for (const std::string& each : kept) EXPECT_TRUE(fs::exists(inner("claims/" + each))) << each;
}

// A kernel that was mended is another one.
TEST(Batches, KnowTheTextOfTheirKernels) {
  std::string pattern = (fs::temp_directory_path() / "shardwise-batch-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path folder = pattern;
  const std::string source = (folder / "k.cu").string(), file = (folder / "batch.jsonl").string();
  std::ofstream(file) << R"({"id": "a", "cuda": {"file": ")" << source << R"(", "kernel": "k"}})"
                      << "\n"
                      << R"({"id": "b", "command": ["true"]})"
                      << "\n";
  const auto digests = [&](const char* text) {
    std::ofstream(source) << text;
    const auto jobs = read_batch(file);
    return std::pair(jobs.at(0).digest, jobs.at(1).digest);
  };
  const auto before = digests("one"), after = digests("two");
  EXPECT_NE(before.first, after.first);
  EXPECT_EQ(before.second, after.second);
  EXPECT_EQ(digests("one"), before);
  fs::remove(source);
  EXPECT_EQ(read_batch(file).size(), 2u) << "what cannot be read is refused where it is needed";
  fs::remove_all(folder);
}

TEST(UnitNames, HaveNoControlCharacters) {
  EXPECT_NO_THROW(check_unit_name("a b,\"ä", "the id"));
  for (const std::string name : {"a\nb", "\x1b[31m", "a\x7f"}) {
    try {
      check_unit_name(name, "the id");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("has a control character"), std::string::npos) << text;
      for (const char c : text) EXPECT_GE(c, ' ');
    }
  }
}

}  // namespace
}  // namespace shardwise::program
