#include "output_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "process_identity.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

bool is_special(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool is_pipe(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
}

/// Opens what is no regular file. A pipe without a reader is waited for, but a signal ends that.
int open_special(const std::string& path) {
  for (;;) {
    const int file = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0) {
      fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
      return file;
    }
    if (errno != ENXIO || !is_pipe(path)) return file;
    throw_if_stopped();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

/// write() until all is out; returns 0 or the errno.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

/// The file that a symbolic link leads to, so that what is renamed into place does not take the link's place.
std::string behind_links(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? path : target.string();
}

[[noreturn]] void throw_io(const std::string& path, int reason) {
  throw Error(ErrorClass::io,
              fmt::format("cannot write '{}' ({}); nothing was left behind, {}", path, std::strerror(reason),
                          reason == ENOSPC ? "free some space or choose another folder"
                                           : "check the file and its folder"));
}

}  // namespace

void check_output(const std::string& path, const std::string& option) {
  if (path == "-") return;
  if (path.empty()) throw_usage(fmt::format("{} needs a file name (''); give one", option));
  std::error_code ignored;
  if (fs::is_symlink(path, ignored)) {
    if (struct stat info = {}; stat(path.c_str(), &info) != 0 && errno == ELOOP)
      throw_usage(fmt::format("{}: '{}' is a link that leads back to itself; choose another", option, path));
    const std::string target = behind_links(path);
    if (target != path) return check_output(target, option);
  }
  if (fs::is_directory(path, ignored)) {
    throw_usage(fmt::format("{} is a folder ('{}'); give a file name in it", option, path));
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::exists(folder, ignored)) {
    throw_usage(fmt::format("{}: the folder '{}' of '{}' does not exist; create it or choose another", option,
                            folder.string(), path));
  }
  if (!fs::is_directory(folder, ignored)) {
    throw_usage(
        fmt::format("{}: '{}' in '{}' is not a folder; choose another", option, folder.string(), path));
  }
  if (is_special(path)) {
    if (access(path.c_str(), W_OK) != 0) {
      throw_usage(
          fmt::format("{}: '{}' cannot be written ({}); choose another", option, path, std::strerror(errno)));
    }
    return;
  }
  if (fs::exists(path, ignored) && access(path.c_str(), W_OK) != 0) {
    throw_usage(
        fmt::format("{}: '{}' cannot be replaced ({}); choose another", option, path, std::strerror(errno)));
  }
  const std::string probe = temporary_name(path);
  const int file = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0 && errno == ENAMETOOLONG) {
    throw_usage(fmt::format("{}: the name '{}' is too long; give a shorter one (up to 200 bytes)", option,
                            fs::path(path).filename().string()));
  }
  if (file < 0) {
    throw_usage(fmt::format("{}: no file can be created in '{}' ({}); choose another folder", option,
                            folder.string(), std::strerror(errno)));
  }
  close(file);
  unlink(probe.c_str());
}

OutputSet::~OutputSet() {
  for (const Staged& staged : staged_) {
    unlink(staged.temporary.c_str());
    forget_temporary(staged.slot);
  }
}

std::string OutputSet::stage_name(const std::string& path) {
  const std::string target = behind_links(path);
  std::string temporary = temporary_name(target);
  staged_.push_back({temporary, target, remember_temporary(temporary)});
  return temporary;
}

void OutputSet::stage(const std::string& path, std::string_view bytes) {
  const bool direct = is_special(path);
  const std::string target = direct ? path : stage_name(path);
  const int file =
      direct ? open_special(path) : open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) throw_io(path, errno);
  int reason = write_all(file, bytes);
  // The data has to be on disk before the name moves; a device or pipe knows no fsync, which is no failure.
  if (reason == 0 && !direct && fsync(file) != 0) reason = errno;
  if (close(file) != 0 && reason == 0) reason = errno;
  if (reason != 0) throw_io(path, reason);
}

void OutputSet::commit(WhenStopped when_stopped) {
  if (when_stopped == WhenStopped::refuse) throw_if_stopped();
  while (!staged_.empty()) {
    const Staged staged = staged_.front();
    if (rename(staged.temporary.c_str(), staged.path.c_str()) != 0) throw_io(staged.path, errno);
    forget_temporary(staged.slot);
    staged_.erase(staged_.begin());
  }
}

void write_stdout(std::string_view text) {
  if (!is_first_rank()) return;
  std::fflush(stdout);
  const int reason = write_all(STDOUT_FILENO, text);
  if (reason != 0) {
    throw Error(ErrorClass::io, fmt::format("cannot write to standard output ({}); check where it goes",
                                            std::strerror(reason)));
  }
}

}  // namespace shardwise::program
