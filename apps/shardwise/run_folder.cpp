#include "run_folder.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "log.hpp"
#include "report_file.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSchema = 1;
constexpr double kBeatSeconds = 5, kStaleSeconds = 60;

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

Json json_of(const FolderOwner& owner) {
  return {{"schema", kSchema}, {"host", owner.host}, {"process", owner.process}, {"since", owner.since}};
}

std::optional<FolderOwner> read_owner(const fs::path& file) {
  const auto text = read_if_there(file);
  if (!text) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return FolderOwner{"unknown", 0, "unknown"};
  return FolderOwner{json.value("host", "unknown"), json.value("process", 0L),
                     json.value("since", "unknown")};
}

/// Whether a process of this machine runs. One that has ended and whose parent has not asked how is a name
/// only.
bool is_running(long process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return false;
  const auto status = read_if_there(fmt::format("/proc/{}/stat", process));
  // "PID (name) STATE ...", where the name may hold anything.
  const auto end = status ? status->rfind(") ") : std::string::npos;
  return end == std::string::npos || status->compare(end + 2, 1, "Z") != 0;
}

bool is_stale(const fs::path& file, const FolderOwner& owner, const std::string& own_host) {
  if (owner.host == own_host && owner.process > 0 && !is_running(owner.process)) return true;
  struct stat info = {};
  if (stat(file.c_str(), &info) != 0) return false;
  // By the clock that stamps the file: clocks of machines that share it may differ.
  const auto probe = fs::path(file.string() + fmt::format(".clock-{}", static_cast<long>(getpid())));
  const int made = open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (made < 0) return false;
  struct stat now = {};
  const bool known = fstat(made, &now) == 0;
  close(made);
  unlink(probe.c_str());
  return known && static_cast<double>(now.st_mtime - info.st_mtime) > kStaleSeconds;
}

std::string own_temporary(const fs::path& file) {
  static std::atomic<int> counter{0};
  return fmt::format("{}.part-{}-{}", file.string(), static_cast<long>(getpid()), counter++);
}

/// Renames where nothing may be. Where the file system cannot, a link does the same.
bool rename_if_absent(const std::string& from, const std::string& to) {
#ifdef RENAME_NOREPLACE
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
#endif
  if (link(from.c_str(), to.c_str()) != 0) return false;
  unlink(from.c_str());
  return true;
}

bool is_empty_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_empty(path, error) && !error;
}

}  // namespace

std::string FolderOwner::text() const {
  return fmt::format("process {} on host {} since {} UTC", process, host, since);
}

std::optional<std::string> read_if_there(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status found = fs::status(path, ignored);
  if (fs::exists(found) && !fs::is_regular_file(found))
    throw_data(
        fmt::format("'{}' is no regular file, which belongs there; remove or rename it", path.string()));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || (!(text << file.rdbuf()) && file.bad())) return std::nullopt;
  return std::move(text).str();
}

void write_by_rename(const fs::path& path, std::string_view bytes) {
  const std::string temporary = own_temporary(path);
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int reason = errno;
  unlink(temporary.c_str());
  throw Error(ErrorClass::io, fmt::format("cannot write '{}' ({}); {}", path.string(), std::strerror(reason),
                                          reason == EISDIR ? "remove or rename the folder of that name"
                                                           : "check the folder and the space left"));
}

void check_unit_name(const std::string& name, const std::string& what) {
  constexpr std::size_t most = 200;
  const char* why = nullptr;
  if (name.empty())
    why = "is empty";
  else if (name.size() > most)
    why = "is longer than 200 bytes";
  else if (name.front() == '.')
    why = "begins with a point";
  else if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
    why = "has a '/' or a zero byte";
  for (const char* own : {"results.csv", "runs.csv", "overview.png", "cache"})
    if (name == own) why = "is a name that the folder of results has for itself";
  std::string text;  // A zero byte would end the message.
  for (const char c : name) text += c == '\0' ? "\\0" : std::string(1, c);
  if (why) throw_data(fmt::format("{} '{}' {}; it names a folder, so choose another", what, text, why));
}

RunFolder::RunFolder(const std::string& path, const std::string& command, bool join)
    : path_(path),
      inner_(fs::path(path) / ".shardwise"),
      self_{host_name(), static_cast<long>(getpid()), utc_now()} {
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_directory(path_, error))
    throw_usage(fmt::format("-o '{}' is no folder; name one, or a new one", path));
  const auto description = read_if_there(inner_ / "folder.json");
  if (!description && fs::exists(path_, error) && !is_empty_folder(path_) && !fs::exists(inner_, error))
    throw_usage(fmt::format("-o '{}' has something in it that 'shardwise {}' did not make; name a new folder",
                            path, command));
  fs::create_directories(inner_ / "claims", error);
  if (error)
    throw_usage(fmt::format("-o '{}' cannot be made ({}); choose another folder", path, error.message()));
  if (description) {
    const Json json = Json::parse(*description, nullptr, false);
    const std::string made_by = json.is_object() ? json.value("command", "something else") : "something else";
    if (made_by != command)
      throw_usage(fmt::format("-o '{}' holds the results of 'shardwise {}'; name another folder for '{}'",
                              path, made_by, command));
  } else {
    const Json json = {{"schema", kSchema}, {"command", command}};
    try {
      write_by_rename(inner_ / "folder.json", json_text(json));
    } catch (const Error& problem) {
      throw_usage(fmt::format("-o: {}", problem.what()));
    }
  }
  if (!join) {
    if (!take(inner_ / "lock")) {
      const auto owner = read_owner(inner_ / "lock").value_or(FolderOwner{"unknown", 0, "unknown"});
      throw_usage(
          fmt::format("-o '{}' is owned by {}; wait for it, add --join to work beside it, or choose another "
                      "folder",
                      path, owner.text()));
    }
    lock_ = inner_ / "lock";
  }
  heart_ = std::thread([this] { beat(); });
}

RunFolder::~RunFolder() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  heart_.join();
  for (const std::string& unit : mine_) unlink((inner_ / "claims" / unit).c_str());
  if (!lock_.empty()) unlink(lock_.c_str());
}

bool RunFolder::make_if_absent(const fs::path& file) {
  const std::string temporary = own_temporary(file);
  {
    std::ofstream out(temporary);
    out << json_text(json_of(self_));
    out.close();
    if (!out) {
      unlink(temporary.c_str());
      throw Error(ErrorClass::io, fmt::format("cannot write '{}' ({}); check the folder and the space left",
                                              file.string(), std::strerror(errno)));
    }
  }
  if (rename_if_absent(temporary, file.string())) return true;
  unlink(temporary.c_str());
  return false;
}

bool RunFolder::take(const fs::path& file) {
  if (make_if_absent(file)) return true;
  auto owner = read_owner(file);
  if (owner && !is_stale(file, *owner, self_.host)) return false;
  // Stale, or gone meanwhile: one taker at a time, who looks again.
  const int guard = open((inner_ / "takeover").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (guard < 0 || flock(guard, LOCK_EX) != 0) {
    if (guard >= 0) close(guard);
    return false;
  }
  owner = read_owner(file);
  bool taken = false;
  if (owner && is_stale(file, *owner, self_.host)) {
    log_warning(
        fmt::format("'{}' was left behind by {}; taking it over", file.filename().string(), owner->text()));
    unlink(file.c_str());
    taken = make_if_absent(file);
  } else if (!owner) {
    taken = make_if_absent(file);
  }
  close(guard);
  return taken;
}

bool RunFolder::claim(const std::string& unit) {
  {
    std::lock_guard lock(mutex_);
    if (mine_.contains(unit)) return true;
  }
  if (!take(inner_ / "claims" / unit)) return false;
  std::lock_guard lock(mutex_);
  mine_.insert(unit);
  return true;
}

void RunFolder::give_up(const std::string& unit) {
  std::lock_guard lock(mutex_);
  if (mine_.erase(unit) > 0) unlink((inner_ / "claims" / unit).c_str());
}

std::optional<FolderOwner> RunFolder::owner_of(const std::string& unit) const {
  const fs::path file = inner_ / "claims" / unit;
  const auto owner = read_owner(file);
  if (!owner || (owner->host == self_.host && owner->process == self_.process)) return std::nullopt;
  if (is_stale(file, *owner, self_.host)) return std::nullopt;
  return owner;
}

void RunFolder::beat() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::duration<double>(kBeatSeconds), [&] { return stopping_; });
    if (stopping_) return;
    const auto touch = [](const fs::path& file) { utimensat(AT_FDCWD, file.c_str(), nullptr, 0); };
    for (const std::string& unit : mine_) touch(inner_ / "claims" / unit);
    if (!lock_.empty()) touch(lock_);
  }
}

}  // namespace shardwise::program
