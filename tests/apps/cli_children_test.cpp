// What becomes of the commands of `shardwise jobs`, and of what they started, however the program ends.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

namespace fs = std::filesystem;

/// Looks every 10 ms, for at most 20 s.
bool comes_true(const std::function<bool()>& is_true) {
  for (int i = 0; i < 2000; ++i) {
    if (is_true()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Runs, and was not merely not waited for.
bool lives(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_ends = text.rfind(')');
  return name_ends != std::string::npos && text.size() > name_ends + 2 && text[name_ends + 2] != 'Z';
}

class Children : public ProgramTest {
 protected:
  /// A batch of one shell command, with /bin/sh's `$$` noted in `leader`, and that of what it starts in
  /// `grandchild`.
  std::vector<std::string> command_that_leaves_a_child(const std::string& grandchild) {
    write("job.sh", "echo $$ > " + path("leader.part") + "; mv " + path("leader.part") + " " +
                        path("leader") + "\n(" + grandchild + "; exec sleep 600) &\necho $! > " +
                        path("grandchild.part") + "; mv " + path("grandchild.part") + " " +
                        path("grandchild") + "\nwait\n");
    return command(R"(["sh", ")" + path("job.sh") + R"("])");
  }
  std::vector<std::string> command(const std::string& words) {
    write("batch.jsonl", R"({"id": "a", "command": )" + words + "}\n");
    return {"jobs", path("batch.jsonl"), "-o", path("out"), "--devices", "host:1x1"};
  }
  pid_t noted(const std::string& name) const {
    EXPECT_TRUE(comes_true([&] { return exists(name); })) << name;
    return static_cast<pid_t>(std::stol(read(name)));
  }
  /// The keeper among the children of the program. One that was just started has no words yet.
  pid_t keeper_of(pid_t program) const {
    pid_t keeper = -1;
    comes_true([&] { return (keeper = find_keeper_of(program)) > 0; });
    return keeper;
  }
  pid_t find_keeper_of(pid_t program) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream words(entry.path() / "cmdline"), status(entry.path() / "status");
      std::ostringstream text, facts;
      text << words.rdbuf();
      facts << status.rdbuf();
      if (text.str().find("--keep-process-groups") != std::string::npos &&
          facts.str().find("PPid:\t" + std::to_string(program) + "\n") != std::string::npos)
        return static_cast<pid_t>(std::stol(name));
    }
    return -1;
  }
};

TEST_F(Children, AreEndedWithWhatTheyStartedWhenTheProgramIsKilled) {
  RunningProgram program(folder_, command_that_leaves_a_child(":"));
  const pid_t leader = noted("leader"), grandchild = noted("grandchild");
  const pid_t keeper = keeper_of(program.id());
  ASSERT_GT(keeper, 0);
  program.send(SIGKILL);
  EXPECT_EQ(program.wait().signal, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !lives(leader) && !lives(grandchild); }));
  EXPECT_TRUE(comes_true([&] { return !lives(keeper); }));
}

// In a container our session may be led from outside, and then has no number.
TEST_F(Children, AreEndedInAProcessNamespace) {
  const std::string enter = "unshare --user --map-root-user --pid --fork --mount-proc ";
  if (std::system((enter + "true 2> /dev/null").c_str()) != 0)
    GTEST_SKIP() << "no process namespace to be had here (unshare of util-linux, and the right to use it)";
  // The first process of a namespace stays: its end would be everybody's.
  write("first.sh", R"(noted=$1; shift
"$@" &
comes_true() { i=0; until "$@"; do test $((i += 1)) -lt 1000 || return 1; sleep 0.02; done; }
has_ended() { ! grep -q '^State:.*[^Z] (' /proc/$(cat $noted)/status 2> /dev/null; }
comes_true test -e $noted && kill -KILL $! && comes_true has_ended
)");
  std::string line = enter + "sh " + path("first.sh") + " " + path("grandchild") + " " SHARDWISE_PROGRAM;
  for (const std::string& word : command_that_leaves_a_child(":")) line += " " + word;
  EXPECT_EQ(std::system(line.c_str()), 0);
}

TEST_F(Children, ThatIgnoreBeingAskedAreKilled) {
  RunningProgram program(folder_, command_that_leaves_a_child("trap '' TERM"));
  const pid_t grandchild = noted("grandchild");
  program.send(SIGKILL);
  EXPECT_EQ(program.wait().signal, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !lives(grandchild); }));
}

// The second signal leaves at once, whatever runs.
TEST_F(Children, AreEndedAfterASecondSignal) {
  RunningProgram program(folder_, command_that_leaves_a_child("trap '' TERM"));
  const pid_t grandchild = noted("grandchild");
  program.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  program.send(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
  EXPECT_TRUE(comes_true([&] { return !lives(grandchild); }));
}

// `timeout`, and shells with job control, put what they start into groups of their own.
TEST_F(Children, AreEndedInWhateverGroup) {
  write("job.sh", "timeout 600 sh -c 'echo $$ > " + path("child.part") + "; mv " + path("child.part") + " " +
                      path("child") + "; exec sleep 600' &\n" + "until test -e " + path("child") +
                      "; do sleep 0.01; done\n$1\n");
  const auto words = [this](const std::string& then, const std::string& more) {
    fs::remove(path("child"));
    fs::remove_all(path("out"));
    std::vector<std::string> result =
        command(R"(["sh", ")" + path("job.sh") + R"(", ")" + then + R"("])" + more);
    return result;
  };
  EXPECT_EQ(run(words("wait", R"(, "timeout_s": 0.5)")).code, 1);
  const auto ends = [this] { return comes_true([child = noted("child")] { return !lives(child); }); };
  EXPECT_TRUE(ends()) << "after its timeout";
  EXPECT_EQ(run(words("true", "")).code, 0);
  EXPECT_TRUE(ends()) << "after its end";
  RunningProgram program(folder_, words("wait", ""));
  const pid_t child = noted("child");
  program.send(SIGKILL);
  EXPECT_EQ(program.wait().signal, SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !lives(child); })) << "after ours";
}

// One that asks a terminal of ours would be stopped by it, for ever.
TEST_F(Children, HaveASessionOfTheirOwn) {
  ASSERT_EQ(run(command(R"(["sh", "-c", "exec cat /proc/self/stat"])")).code, 0);
  std::istringstream fields(read("out/a/stdout"));
  std::string number, name, state, parent, group, session, terminal;
  fields >> number >> name >> state >> parent >> group >> session >> terminal;
  EXPECT_EQ(session, number);
  EXPECT_EQ(terminal, "0");
}

// As where a user may have no more processes: a thread whose stack has no room does not start either.
TEST_F(Children, WithoutThreadsTheProgramSaysSo) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
  if (limit.rlim_max != RLIM_INFINITY) GTEST_SKIP() << "stacks are limited here";
  const std::vector<std::string> words = command(R"(["true"])");
  const rlimit huge = {rlim_t{1} << 50, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_STACK, &huge), 0);
  const Outcome outcome = run(words);
  setrlimit(RLIMIT_STACK, &limit);
  expect_one_line_error(outcome, 1,
                        "no more threads can be started (Resource temporarily unavailable); raise");
  EXPECT_FALSE(exists("out/.shardwise/lock"));
}

TEST_F(Children, ThatCannotStartAreToldWhatToDo) {
  const Outcome outcome = run(command(R"(["true", ")" + std::string(300'000, 'x') + R"("])"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("Argument list too long); give shorter arguments"), std::string::npos)
      << outcome.err;
}

TEST_F(Children, TheKeeperEndsWithTheProgram) {
  write("job.sh", "echo > " + path("began") + "; while ! test -e " + path("go") + "; do sleep 0.02; done\n");
  RunningProgram program(folder_, command(R"(["sh", ")" + path("job.sh") + R"("])"));
  ASSERT_TRUE(comes_true([&] { return exists("began"); }));
  const pid_t keeper = keeper_of(program.id());
  ASSERT_GT(keeper, 0);
  // What a terminal or a launcher sends to everybody is not for it.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) kill(keeper, number);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(lives(keeper));
  write("go", "");
  EXPECT_EQ(program.wait().code, 0);
  EXPECT_FALSE(lives(keeper)) << "at once, not some time later";
}

// A keeper that somebody stopped or ended holds nothing up.
TEST_F(Children, TheProgramDoesWithoutItsKeeper) {
  std::string batch = R"({"id": "first", "cost": 9, "command": ["sh", "-c", "echo > )" + path("began") +
                      R"(; while ! test -e )" + path("go") + R"(; do sleep 0.02; done"]})" + "\n";
  for (int i = 0; i < 20; ++i)
    batch += R"({"id": ")" + std::to_string(i) + R"(", "command": ["true"]})" + "\n";
  write("batch.jsonl", batch);
  RunningProgram program(folder_, {"jobs", path("batch.jsonl"), "-o", path("out"), "--devices", "host:1x1"});
  ASSERT_TRUE(comes_true([&] { return exists("began"); }));
  const pid_t keeper = keeper_of(program.id());
  ASSERT_GT(keeper, 0);
  kill(keeper, SIGKILL);
  write("go", "");
  EXPECT_EQ(program.wait().code, 0);
}

// Nothing of the program's is open in a command, so that a pipe or a folder of ours is not held by what
// stays.
TEST_F(Children, GetTheThreeStandardStreamsAndNoMore) {
  const auto open_files = [this](const std::string& listing) {
    std::istringstream lines(read(listing));
    std::multiset<std::string> result;
    for (std::string line; std::getline(lines, line);)
      if (const auto arrow = line.find(" -> "); arrow != std::string::npos) result.insert(line.substr(arrow));
    return result;
  };
  // What this test was itself started with goes through: a build's job server, for example.
  const std::string ours = "ls -l /proc/self/fd > " + path("before");
  ASSERT_EQ(std::system(ours.c_str()), 0);
  std::vector<std::string> words =
      command(R"(["sh", "-c", "ls -l /proc/self/fd > )" + path("within") + R"("])");
  words.insert(words.end(), {"--log-file", path("log")});
  ASSERT_EQ(run(words).code, 0);
  EXPECT_EQ(open_files("within").size(), open_files("before").size()) << read("within") << read("before");
}

// A parent that ignores the end of its children hands that down; nobody could be waited for.
TEST_F(Children, AreWaitedForWhereTheParentIgnoresTheirEnd) {
  const std::vector<std::string> words = command(R"(["sh", "-c", "exit 0"])");
  signal(SIGCHLD, SIG_IGN);
  RunningProgram program(folder_, words);
  signal(SIGCHLD, SIG_DFL);
  EXPECT_TRUE(comes_true([&] { return !program.is_running(); }));
  EXPECT_EQ(program.wait().code, 0);
}

}  // namespace
}  // namespace shardwise::test
