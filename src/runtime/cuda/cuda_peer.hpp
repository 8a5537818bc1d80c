#pragma once
// Which GPUs reach each other's memory.

#include <memory>
#include <string>
#include <vector>

#include "shardwise/runtime/device.hpp"

namespace shardwise {

/// Enables peer access and proves every ordered pair of GPUs with a pattern: a copy, and a kernel that reads
/// and writes the other GPU's memory. A pair that fails is staged through pinned host memory from now on,
/// with one warning for all of them, or refused by a usage Error. Each pair is probed once a process.
/// Thread-safe.
void probe_cuda_peers(const std::vector<std::shared_ptr<Device>>& devices, bool require_peer,
                      std::vector<std::string>& warnings);

/// Whether copies from GPU `source` to GPU `target` must go through the host.
bool cuda_pair_is_staged(int source, int target) noexcept;
/// For tests: takes a pair for one that does not work, or for one that does.
void set_cuda_pair_staged(int source, int target, bool staged) noexcept;

/// What the driver says of the link between two GPUs.
struct CudaLink {
  int performance_rank = -1;    ///< lower is faster
  bool native_atomics = false;  ///< NVLink has them, PCIe has not
};
CudaLink cuda_link(int source, int target);

}  // namespace shardwise
