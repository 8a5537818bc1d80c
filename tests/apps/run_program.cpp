#include "run_program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace shardwise::test {
namespace fs = std::filesystem;
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// An ASCII PLY of quads.
std::string quads_ply(const std::vector<std::vector<double>>& corners) {
  std::ostringstream ply;
  ply << "ply\nformat ascii 1.0\nelement vertex " << corners.size()
      << "\nproperty float x\nproperty float y\nproperty float z\nelement face " << corners.size() / 4
      << "\nproperty list uchar int vertex_indices\nend_header\n";
  for (const auto& c : corners) ply << c[0] << ' ' << c[1] << ' ' << c[2] << '\n';
  for (std::size_t i = 0; i < corners.size(); i += 4) {
    ply << "4 " << i << ' ' << i + 1 << ' ' << i + 2 << ' ' << i + 3 << '\n';
  }
  return ply.str();
}

}  // namespace

RunningProgram::RunningProgram(const fs::path& folder, const std::vector<std::string>& arguments,
                               const std::string& stdout_path)
    : folder_(folder), stdout_path_(stdout_path.empty() ? (folder / "stdout").string() : stdout_path) {
  std::vector<std::string> words{SHARDWISE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const std::string stderr_path = (folder / "stderr").string();
  process_ = fork();
  if (process_ == 0) {
    const int out = open(stdout_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const int err = open(stderr_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
}

RunningProgram::~RunningProgram() {
  if (done_ || process_ <= 0) return;
  kill(process_, SIGKILL);
  collect(0);
}

void RunningProgram::collect(int options) {
  if (done_) return;
  if (waitpid(process_, &status_, options) == process_) done_ = true;
}

void RunningProgram::send(int signal_number) const {
  kill(process_, signal_number);
}

bool RunningProgram::is_running() {
  collect(WNOHANG);
  return !done_;
}

Outcome RunningProgram::wait() {
  collect(0);
  Outcome outcome;
  if (WIFEXITED(status_)) outcome.code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) outcome.signal = WTERMSIG(status_);
  if (stdout_path_ == (folder_ / "stdout").string()) outcome.out = read_file(stdout_path_);
  outcome.err = read_file(folder_ / "stderr");
  return outcome;
}

void ProgramTest::SetUp() {
  std::string pattern = (fs::temp_directory_path() / "shardwise-cli-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
}

void ProgramTest::TearDown() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

Outcome ProgramTest::run(const std::vector<std::string>& arguments, const std::string& stdout_path) const {
  return RunningProgram(folder_, arguments, stdout_path).wait();
}

void ProgramTest::write(const std::string& name, const std::string& text) const {
  std::ofstream(folder_ / name, std::ios::binary) << text;
}

std::string ProgramTest::read(const std::string& name) const {
  return read_file(folder_ / name);
}

std::vector<std::string> ProgramTest::leftovers() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".part-") != std::string::npos) names.push_back(name);
  }
  return names;
}

std::string ProgramTest::box_scene() const {
  write("ground.ply", quads_ply({{-50, -40, 0}, {50, -40, 0}, {50, 40, 0}, {-50, 40, 0}}));
  write("box.ply", quads_ply({{10, 11, 20}, {30, 11, 20}, {30, 29, 20}, {10, 29, 20}, {10, 11, 0},
                              {30, 11, 0},  {30, 11, 20}, {10, 11, 20}, {30, 11, 0},  {30, 29, 0},
                              {30, 29, 20}, {30, 11, 20}, {30, 29, 0},  {10, 29, 0},  {10, 29, 20},
                              {30, 29, 20}, {10, 29, 0},  {10, 11, 0},  {10, 11, 20}, {10, 29, 20}}));
  write("scene.xml",
        "<scene version=\"2.1.0\">\n"
        "<bsdf type=\"itu-radio-material\" id=\"wall\"><string name=\"type\" value=\"concrete\"/></bsdf>\n"
        "<shape type=\"ply\" id=\"ground\"><string name=\"filename\" value=\"ground.ply\"/><ref "
        "id=\"wall\"/></shape>\n"
        "<shape type=\"ply\" id=\"box\"><string name=\"filename\" value=\"box.ply\"/><ref "
        "id=\"wall\"/></shape>\n"
        "</scene>\n");
  return path("scene.xml");
}

std::vector<std::string> ProgramTest::coverage(const std::vector<std::string>& more) const {
  std::vector<std::string> arguments{"coverage", box_scene(), "--tx", "-10,0,10",  "--samples",
                                     "40k",      "--cell",    "4",    "--devices", "host:1x1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void prepare_for_ranks(const char* deadline_s) {
  for (const char* name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"})
    setenv(name, "1", 1);
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  setenv("SHARDWISE_RANK_DEADLINE", deadline_s, 1);
  unsetenv("OMPI_MCA_odls_base_sigkill_timeout");
}

void expect_ranks_to_end_together() {
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 1);
}

void expect_one_line_error(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const std::size_t start = outcome.err.find("shardwise: error: ");
  ASSERT_NE(start, std::string::npos) << outcome.err;
  const std::string line = outcome.err.substr(start);
  EXPECT_EQ(std::ranges::count(line, '\n'), 1) << line;
  EXPECT_NE(line.find(part), std::string::npos) << "no '" << part << "' in: " << line;
}

}  // namespace shardwise::test
