#pragma once
// Runs the program as a user does, and a folder of its own for each test.

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace shardwise::test {

struct Outcome {
  int code = -1;   ///< exit code; -1 where a signal ended the program
  int signal = 0;  ///< that ended it
  std::string out, err;
};

/// A program that runs; its output goes to files in `folder`.
class RunningProgram {
 public:
  RunningProgram(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                 const std::string& stdout_path = {});
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void send(int signal_number) const;
  pid_t id() const { return process_; }
  bool is_running();
  Outcome wait();

 private:
  void collect(int options);
  std::filesystem::path folder_;
  std::string stdout_path_;
  pid_t process_ = -1;
  int status_ = 0;
  bool done_ = false;
};

/// A test with an empty folder, removed afterwards, and small scenes in it.
class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Outcome run(const std::vector<std::string>& arguments, const std::string& stdout_path = {}) const;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  /// Names in the folder that a half-finished write would leave.
  std::vector<std::string> leftovers() const;

  /// A ground of 100 x 80 m around the origin with a box of 20 x 18 x 20 m on it, as scene.xml.
  std::string box_scene() const;
  /// coverage of box_scene() with few rays on one host device, and what is added.
  std::vector<std::string> coverage(const std::vector<std::string>& more) const;

  std::filesystem::path folder_;
};

/// Environment for mpirun on a machine that has fewer cores than ranks, may be a container, and has us as
/// root.
void prepare_for_ranks(const char* deadline_s);
/// mpirun gives ranks a second to end once one has ended with an error. Those that agree on it end together,
/// after they have said and removed all: it needs not wait.
void expect_ranks_to_end_together();

/// One line that starts with "shardwise: error: ".
void expect_one_line_error(const Outcome& outcome, int code, const std::string& part);

}  // namespace shardwise::test
