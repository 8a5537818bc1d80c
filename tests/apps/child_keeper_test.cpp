// The keeper by itself, with groups and a channel of the test's.

#include "child_keeper.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace shardwise::program {
namespace {

using Clock = std::chrono::steady_clock;

/// A process that waits for a signal, in a group, or in a session, of its own.
class Sleeper {
 public:
  enum class Place { group, session };
  explicit Sleeper(Place place, bool stubborn = false) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    process_ = fork();
    if (process_ == 0) {
      if (stubborn) signal(SIGTERM, SIG_IGN);
      if (place == Place::group)
        setpgid(0, 0);
      else
        setsid();
      (void)!write(ready[1], "r", 1);
      while (true) pause();
    }
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~Sleeper() {
    if (!is_alive()) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  /// The signal that ended it; 0: it lives.
  int end() {
    int status = 0;
    if (ended_by_ == 0 && waitpid(process_, &status, WNOHANG) == process_) ended_by_ = WTERMSIG(status);
    return ended_by_;
  }
  bool is_alive() { return end() == 0; }
  std::int32_t id() const { return process_; }

 private:
  pid_t process_ = -1;
  int ended_by_ = 0;
};

/// Runs a keeper that is told `words`, then meets the channel's end; its exit code.
int run_keeper_with(const std::vector<std::int32_t>& words, double grace_seconds) {
  int channel[2];
  EXPECT_EQ(pipe(channel), 0);
  const pid_t process = fork();
  if (process == 0) {
    close(channel[1]);
    _exit(keep_groups(channel[0], grace_seconds));
  }
  close(channel[0]);
  EXPECT_EQ(write(channel[1], words.data(), words.size() * sizeof(std::int32_t)),
            static_cast<ssize_t>(words.size() * sizeof(std::int32_t)));
  close(channel[1]);
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ChildKeeper, EndsWhatIsLeftAndNothingElse) {
  const std::int32_t session = getsid(0);
  Sleeper left(Sleeper::Place::group), forgotten(Sleeper::Place::group), untold(Sleeper::Place::group);
  // Another process got the number of a group that is no more: it is in another session.
  Sleeper stranger(Sleeper::Place::session);
  EXPECT_EQ(run_keeper_with({left.id(), session, forgotten.id(), session, stranger.id(), session,
                             forgotten.id(), kForgetGroup},
                            2),
            0);
  EXPECT_EQ(left.end(), SIGTERM);
  EXPECT_TRUE(forgotten.is_alive());
  EXPECT_TRUE(stranger.is_alive());
  EXPECT_TRUE(untold.is_alive());
}

// A group that is its session's first stands for the session: `timeout` and shells with job control make
// more.
TEST(ChildKeeper, EndsAllOfASession) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t leader = fork();
  if (leader == 0) {
    setsid();
    const pid_t other = fork();
    if (other == 0) {
      setpgid(0, 0);
      (void)!write(ready[1], "r", 1);
      while (true) pause();
    }
    int status = 0;
    signal(SIGTERM, SIG_IGN);
    waitpid(other, &status, 0);
    _exit(WIFSIGNALED(status) ? WTERMSIG(status) : 99);
  }
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  EXPECT_EQ(run_keeper_with({leader, leader}, 10), 0);
  int status = 0;
  ASSERT_EQ(waitpid(leader, &status, 0), leader);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), SIGTERM) << "what ended the other group";
}

TEST(ChildKeeper, KillsAfterItsGrace) {
  Sleeper stubborn(Sleeper::Place::group, true);
  const auto begin = Clock::now();
  EXPECT_EQ(run_keeper_with({stubborn.id(), getsid(0)}, 0.2), 0);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(200));
  int status = 0;
  ASSERT_EQ(waitpid(stubborn.id(), &status, 0), stubborn.id());
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

// What is not a group of ours is refused before anything is killed: 0 and 1 would be everybody.
TEST(ChildKeeper, NonsenseEndsIt) {
  Sleeper left(Sleeper::Place::group);
  EXPECT_EQ(run_keeper_with({left.id(), getsid(0), 0, getsid(0)}, 0), 2);
  EXPECT_EQ(run_keeper_with({left.id(), getsid(0), 1, getsid(0)}, 0), 2);
  EXPECT_EQ(run_keeper_with({left.id(), getsid(0), -5, getsid(0)}, 0), 2);
  EXPECT_EQ(run_keeper_with({left.id(), getsid(0), left.id(), kForgetGroup - 1}, 0), 2);
  EXPECT_EQ(run_keeper_with({left.id(), getsid(0), 7}, 0), 2) << "half a message";
  EXPECT_TRUE(left.is_alive());
}

}  // namespace
}  // namespace shardwise::program
