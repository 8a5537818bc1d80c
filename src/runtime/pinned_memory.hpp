#pragma once
// Host memory that devices copy to and from without holding up anyone: pinned where the set has GPUs, plain
// otherwise. Released blocks are kept for the next (pinning is slow).

#include <cstdint>
#include <memory>

#include "shardwise/runtime/devices.hpp"

namespace shardwise {

/// Throws a memory error that names the bytes and `what`. Not initialised.
std::shared_ptr<void> allocate_pinned(const DeviceSet& devices, std::uint64_t bytes, const char* what);

}  // namespace shardwise
