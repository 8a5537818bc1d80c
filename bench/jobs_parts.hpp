#pragma once
// What the files of `bench jobs` share.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/runner.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The devices asked for, unlike ones too.
inline DeviceSet open_any(const std::string& devices) {
  OpenOptions options;
  options.allow_mixed = true;
  return open_devices(devices, options);
}

/// Random numbers. Raw bits only: the same lists on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  double unit() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(unit())) * std::cos(6.283185307179586 * unit()); }

 private:
  std::mt19937_64 engine_;
};

/// How many items or keys are placed in a second, without a device (jobs_placing.cpp).
std::vector<Case> job_placing_cases(const Settings& settings);
/// What a job costs above its work, here and in a worker process (jobs_cost.cpp). None on sim, whose time is
/// virtual: what the host spends on a job does not show there.
std::vector<Case> job_cost_cases(const Settings& settings);
/// Makespans over their bound (jobs_placing.cpp): in virtual time, and of jobs that sleep.
std::vector<Case> virtual_makespan_cases(const Settings& settings);
Case sleeping_case(const Settings& settings);
/// Hits of DeviceCache by placement (jobs_cache.cpp).
std::vector<Case> job_cache_cases(const Settings& settings);

}  // namespace shardwise::bench
