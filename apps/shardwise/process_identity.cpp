#include "process_identity.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>

#include "process_stat.hpp"

namespace shardwise::program {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

const std::string& own_space() {
  static const std::string space = [] {
    std::string start;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> start;
    std::error_code error;
    const std::string names = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
    return start.empty() || error ? std::string() : start + " " + names;
  }();
  return space;
}

}  // namespace

ProcessIdentity own_identity() {
  const auto line = read_process_stat(getpid());
  return {host_name(), own_space(), static_cast<long>(getpid()), line ? line->started : ""};
}

ProcessFate fate_of(const ProcessIdentity& process) {
  if (process.host != host_name() || process.number <= 0) return ProcessFate::unknown;
  // One that another version wrote names no space: then the host has to do.
  if (!process.space.empty() && process.space != own_space()) return ProcessFate::unknown;
  if (kill(static_cast<pid_t>(process.number), 0) != 0 && errno == ESRCH) return ProcessFate::gone;
  const auto line = read_process_stat(process.number);
  if (!line) return ProcessFate::unknown;
  // It has ended, and its parent has not asked how.
  if (line->state == 'Z' || line->state == 'X') return ProcessFate::gone;
  if (process.started.empty()) return ProcessFate::unknown;
  if (line->started != process.started) return ProcessFate::gone;
  return line->state == 'T' || line->state == 't' ? ProcessFate::stopped : ProcessFate::runs;
}

std::string temporary_name(const std::string& path) {
  static const std::uint64_t chance = [] {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
  }();
  static std::atomic<int> counter{0};
  return fmt::format("{}.part-{}-{:016x}-{}", path, static_cast<long>(getpid()), chance, counter++);
}

}  // namespace shardwise::program
