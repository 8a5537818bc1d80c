#include "rank_devices.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "ranks.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_device.hpp"
#endif

namespace shardwise::program {
namespace {

/// The cores of one rank. A launcher that binds ranks has shared them already.
int cores_of(const Machine& machine) {
  const bool bound = machine.cores * machine.local_size <= machine.machine_cores;
  return bound ? machine.cores : std::max(1, machine.cores / machine.local_size);
}

std::string gpus_of(const Machine& machine, bool share_gpus) {
  if (machine.gpus == 0) return "cuda";  // opening them says what is wrong
  if (machine.local_size > machine.gpus) {
    if (!share_gpus)
      throw_usage(
          fmt::format("{} ranks run on this machine, which has {} GPU{}; start one rank a GPU, or add "
                      "--share-gpus to have "
                      "ranks share them",
                      machine.local_size, machine.gpus, machine.gpus == 1 ? "" : "s"));
    return fmt::format("cuda:{}", machine.local_rank % machine.gpus);
  }
  const int first = machine.local_rank * machine.gpus / machine.local_size,
            end = (machine.local_rank + 1) * machine.gpus / machine.local_size;
  std::string spec = "cuda:";
  for (int gpu = first; gpu < end; ++gpu) spec += fmt::format("{}{}", gpu > first ? "," : "", gpu);
  return spec;
}

}  // namespace

std::string rank_devices(const std::string& spec, const Machine& machine, bool share_gpus) {
  if (spec.empty())
    return machine.gpus > 0 ? gpus_of(machine, share_gpus) : fmt::format("host:1x{}", cores_of(machine));
  if (spec == "cuda") return gpus_of(machine, share_gpus);
  if (spec == "host") return fmt::format("host:1x{}", cores_of(machine));
  const bool plain_host = spec.starts_with("host:") && spec.size() > 5 &&
                          std::ranges::all_of(spec.substr(5), [](char c) { return c >= '0' && c <= '9'; });
  if (!plain_host || spec.size() > 9) return spec;
  const int count = std::max(1, std::atoi(spec.c_str() + 5));
  return fmt::format("{}x{}", spec, std::max(1, cores_of(machine) / count));
}

Machine this_machine() {
  Machine machine;
#if SHARDWISE_WITH_CUDA
  machine.gpus = cuda_device_count();
#endif
  machine.cores = available_cores();
  machine.machine_cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  machine.local_rank = ranks().local_rank();
  machine.local_size = ranks().local_size();
  return machine;
}

}  // namespace shardwise::program
