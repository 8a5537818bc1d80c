#include "run_folder.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>
#include <vector>

#include "log.hpp"
#include "report_file.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSchema = 1;
constexpr double kBeatSeconds = 5, kStaleSeconds = 60, kLeftSeconds = 3600;

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

Json json_of(const FolderOwner& owner) {
  const ProcessIdentity& process = owner.process;
  return {{"schema", kSchema},         {"host", process.host},       {"space", process.space},
          {"process", process.number}, {"started", process.started}, {"since", owner.since}};
}

FolderOwner unknown_owner() {
  return {{"unknown", "", 0, ""}, "unknown"};
}

std::optional<FolderOwner> read_owner(const fs::path& file) {
  const auto text = read_if_there(file);
  if (!text) return std::nullopt;
  try {
    const Json json = Json::parse(*text);
    return FolderOwner{{json.value("host", "unknown"), json.value("space", ""), json.value("process", 0L),
                        json.value("started", "")},
                       json.value("since", "unknown")};
  } catch (const Json::exception&) {
    return unknown_owner();
  }
}

/// Its owner touches it every few seconds, so that one from the future is no owner's either: the clock was
/// set back since.
bool is_untouched(const fs::path& file, double seconds) {
  struct stat info = {};
  if (stat(file.c_str(), &info) != 0) return false;
  // By the clock that stamps the file: clocks of machines that share it may differ.
  const std::string probe = temporary_name((file.parent_path() / ".clock").string());
  const int made = open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (made < 0) return false;
  struct stat now = {};
  const bool known = fstat(made, &now) == 0;
  close(made);
  unlink(probe.c_str());
  return known && std::abs(static_cast<double>(now.st_mtime - info.st_mtime)) > seconds;
}

/// Renames where nothing may be. Where the file system cannot, a link does the same.
bool rename_if_absent(const std::string& from, const std::string& to) {
#ifdef RENAME_NOREPLACE
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
#endif
  if (link(from.c_str(), to.c_str()) != 0) {
    const int reason = errno;
    unlink(from.c_str());
    if (reason == EEXIST) return false;
    if (reason == ENOENT)
      throw Error(ErrorClass::io, fmt::format("cannot write '{}' ({}); check that its folder is still there",
                                              to, std::strerror(reason)));
    throw Error(
        ErrorClass::io,
        fmt::format("'{}' cannot be made where nothing may be ({}), by which processes agree on who does "
                    "what; choose a folder on another file system",
                    to, std::strerror(reason)));
  }
  unlink(from.c_str());
  return true;
}

bool is_control(char c) {
  return (c >= 0 && c < ' ') || c == 0x7f;
}

bool is_empty_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_empty(path, error) && !error;
}

}  // namespace

std::string FolderOwner::text() const {
  return fmt::format("process {} on host {} since {} UTC", process.number, process.host, since);
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
  const std::string temporary = temporary_name(path.string());
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

void remove_left_parts(const fs::path& folder) {
  std::vector<fs::path> left;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    if (is_temporary_name(entry->path().filename().string())) left.push_back(entry->path());
  for (const fs::path& file : left)
    if (is_untouched(file, kLeftSeconds)) unlink(file.c_str());
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
  else if (std::ranges::any_of(name, is_control))
    why = "has a control character";
  for (const char* own : {"results.csv", "runs.csv", "overview.png", "cache"})
    if (name == own) why = "is a name that the folder of results has for itself";
  std::string text;  // A zero byte would end the message, and a line feed its line.
  for (const char c : name)
    text += c == '\0' ? "\\0" : is_control(c) ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  if (why) throw_data(fmt::format("{} '{}' {}; it names a folder, so choose another", what, text, why));
}

RunFolder::RunFolder(const std::string& path, const std::string& command, bool join)
    : path_(path), inner_(fs::path(path) / ".shardwise"), self_{own_identity(), utc_now()} {
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
    const bool is_told = json.is_object() && json.contains("command") && json["command"].is_string();
    const std::string made_by = is_told ? json["command"].get<std::string>() : "something else";
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
    bool taken = false;
    try {
      taken = take(inner_ / "lock");
    } catch (const Error& problem) {  // nothing has begun yet
      if (problem.error_class() != ErrorClass::io) throw;
      throw_usage(fmt::format("-o: {}", problem.what()));
    }
    if (!taken) {
      const auto owner = read_owner(inner_ / "lock").value_or(unknown_owner());
      throw_usage(
          fmt::format("-o '{}' is owned by {}; wait for it, add --join to work beside it, or choose another "
                      "folder",
                      path, owner.text()));
    }
    lock_ = inner_ / "lock";
    remove_left_parts(inner_ / "claims");
  }
  try {
    heart_ = std::thread([this] { beat(); });
  } catch (...) {
    if (!lock_.empty()) remove_own(lock_);
    throw;
  }
}

RunFolder::~RunFolder() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  heart_.join();
  for (const std::string& unit : mine_) remove_own(inner_ / "claims" / unit);
  if (!lock_.empty()) remove_own(lock_);
}

// After a long stop of ours, or of our machine, it may be another's.
void RunFolder::remove_own(const fs::path& file) const noexcept {
  try {
    const auto owner = read_owner(file);
    if (!owner) return;
    if (owner->process == self_.process)
      unlink(file.c_str());
    else
      log_warning(
          fmt::format("'{}' was taken over by {}, because this process did not show itself for {:.0f} s; "
                      "both may have done the same work",
                      file.string(), owner->text(), kStaleSeconds));
  } catch (const std::exception& problem) {
    log_warning(problem.what());
  }
}

bool RunFolder::is_stale(const fs::path& file, const FolderOwner& owner) const {
  const ProcessFate fate = fate_of(owner.process);
  if (fate == ProcessFate::gone) return true;
  if (fate == ProcessFate::runs) return false;
  if (!is_untouched(file, kStaleSeconds)) return false;
  if (fate == ProcessFate::unknown) return true;
  if (!told_of_stopped_.exchange(true))
    log_warning(fmt::format("{} is stopped and has '{}'; let it go on ('kill -CONT {}') or end it",
                            owner.text(), file.filename().string(), owner.process.number));
  return false;
}

bool RunFolder::make_if_absent(const fs::path& file) {
  const std::string temporary = temporary_name(file.string());
  {
    std::ofstream out(temporary);
    out << json_text(json_of(self_));
    out.close();
    if (!out) {
      const int reason = errno;
      unlink(temporary.c_str());
      throw Error(ErrorClass::io, fmt::format("cannot write '{}' ({}); check the folder and the space left",
                                              file.string(), std::strerror(reason)));
    }
  }
  if (rename_if_absent(temporary, file.string())) return true;
  unlink(temporary.c_str());
  return false;
}

bool RunFolder::take(const fs::path& file) {
  if (make_if_absent(file)) return true;
  auto owner = read_owner(file);
  if (owner && !is_stale(file, *owner)) return false;
  // Stale, or gone meanwhile: one taker at a time, who looks again.
  const int guard = open((inner_ / "takeover").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (guard < 0 || flock(guard, LOCK_EX) != 0) {
    if (guard >= 0) close(guard);
    return false;
  }
  owner = read_owner(file);
  bool taken = false;
  if (owner && is_stale(file, *owner)) {
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
  if (mine_.erase(unit) > 0) remove_own(inner_ / "claims" / unit);
}

std::optional<FolderOwner> RunFolder::owner_of(const std::string& unit) const {
  const fs::path file = inner_ / "claims" / unit;
  const auto owner = read_owner(file);
  if (!owner || owner->process == self_.process) return std::nullopt;
  if (is_stale(file, *owner)) return std::nullopt;
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
