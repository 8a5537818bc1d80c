#pragma once

#include <string>

namespace shardwise::program {

/// How many GPUs and cores a rank can see, and who else on its machine sees them.
struct Machine {
  int gpus = 0;
  int cores = 1;          ///< that this process may use
  int machine_cores = 1;  ///< that the machine has: more, where the launcher has bound the rank to some
  int local_rank = 0, local_size = 1;
};

/// The devices of one rank among several: `spec`, where it says which, else the rank's equal share. Without a
/// spec the GPUs (or cores) of the machine are shared, for `cuda` the GPUs, for `host:N` the cores;
/// everything else is meant as it is, on every rank. Throws a usage error where there are more ranks than
/// GPUs, unless `share_gpus`.
std::string rank_devices(const std::string& spec, const Machine& machine, bool share_gpus);

/// This process'.
Machine this_machine();

}  // namespace shardwise::program
