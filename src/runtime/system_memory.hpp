#pragma once
// What the system says about memory, to hold our own counters against: the driver for a GPU, the kernel for
// the host.

#include <cstdint>

#include "shardwise/runtime/device.hpp"

namespace shardwise {

/// Starts a new peak; returns the bytes in use now. GPU: of the device's default pool. Host and sim: the
/// resident set of the process; 0 where the system does not tell.
std::uint64_t start_system_peak(Device& device);

/// The most bytes in use since start_system_peak(); see there.
std::uint64_t system_peak(Device& device);

}  // namespace shardwise
