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

bool is_temporary_name(const std::string& name) {
  const std::size_t mark = name.rfind(".part-");
  if (mark == std::string::npos) return false;
  // Process, chance, number.
  const std::string rest = name.substr(mark + 6);
  const std::size_t first = rest.find('-'), second = rest.rfind('-');
  const auto is_of = [&rest](std::size_t begin, std::size_t end, const char* digits) {
    return begin < end && rest.find_first_not_of(digits, begin) >= end;
  };
  return first != std::string::npos && second == first + 17 && is_of(0, first, "0123456789") &&
         is_of(first + 1, second, "0123456789abcdef") && is_of(second + 1, rest.size(), "0123456789");
}

}  // namespace shardwise::program
