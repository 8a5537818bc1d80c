#pragma once
// Gets a device ready for the first call that is timed.

#include "shardwise/runtime/stream.hpp"

namespace shardwise {

/// Enqueues what makes the device's kernels ready, the first time in a process; nothing where there are none
/// (host, sim).
void warm_up(Stream& stream);

}  // namespace shardwise
