#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "shardwise/runtime/devices.hpp"

namespace shardwise {

namespace {

/// The first word of a file; empty where it cannot be read.
std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// A cgroup limit, or 0 where there is none ("max", a huge number, no file).
double cgroup_number(const std::string& path) {
  const std::string word = first_word(path);
  if (word.empty() || word == "max") return 0;
  try {
    const double value = std::stod(word);
    return value > 1e18 ? 0 : value;
  } catch (...) {
    return 0;
  }
}

/// The folders of the control group this process is in and of all groups around it, the nearest first. In a
/// container its own group is the root.
std::vector<std::string> cgroup_folders() {
  const std::string root = "/sys/fs/cgroup";
  std::vector<std::string> folders;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::/", 0) != 0) continue;  // the unified hierarchy
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      folders.push_back(root + path);
  }
  folders.push_back(root);
  return folders;
}

}  // namespace

int available_cores() {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));

  const auto limit = [&cores](double quota, double period) {
    if (quota > 0 && period > 0) cores = std::min(cores, std::max(1, static_cast<int>(quota / period + 0.5)));
  };
  for (const std::string& folder : cgroup_folders()) {
    std::ifstream file(folder + "/cpu.max");  // "max 100000" or "150000 100000"
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max") limit(std::atof(quota.c_str()), period);
  }
  limit(cgroup_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        cgroup_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  return cores;
}

std::uint64_t available_memory() {
  std::uint64_t bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  std::vector<std::string> files = {"/sys/fs/cgroup/memory/memory.limit_in_bytes"};
  for (const std::string& folder : cgroup_folders()) files.push_back(folder + "/memory.max");
  for (const std::string& path : files) {
    const double limit = cgroup_number(path);
    if (limit > 0) bytes = std::min(bytes, static_cast<std::uint64_t>(limit));
  }
  return bytes;
}

}  // namespace shardwise
