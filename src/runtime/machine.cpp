#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

#include "shardwise/runtime/devices.hpp"

namespace shardwise {

namespace {

/// The first word of a file; empty where it cannot be read.
std::string first_word(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// A cgroup limit, or 0 where there is none ("max", a huge number, no file).
double cgroup_number(const char* path) {
  const std::string word = first_word(path);
  if (word.empty() || word == "max") return 0;
  try {
    const double value = std::stod(word);
    return value > 1e18 ? 0 : value;
  } catch (...) {
    return 0;
  }
}

}  // namespace

int available_cores() {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));

  double quota = 0, period = 0;
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string word;
  if (v2 >> word >> period && word != "max") quota = std::atof(word.c_str());
  if (quota <= 0) {
    quota = cgroup_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = cgroup_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  if (quota > 0 && period > 0) cores = std::min(cores, std::max(1, static_cast<int>(quota / period + 0.5)));
  return cores;
}

std::uint64_t available_memory() {
  std::uint64_t bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const double limit = cgroup_number(path);
    if (limit > 0) bytes = std::min(bytes, static_cast<std::uint64_t>(limit));
  }
  return bytes;
}

}  // namespace shardwise
