#pragma once

#include "dispatch/scenario.hpp"

namespace shardwise::test {

/// The scenario's rows where the operation runs: launched on CUDA, done on the host elsewhere.
void launch_rows(LaunchContext& context, const Word* in, const Word* table, Word* out, std::int64_t count);

/// Keeps a CUDA stream busy for about this long; nothing elsewhere.
void launch_delay(LaunchContext& context, double milliseconds);

/// A kernel that writes through this pointer.
void launch_write(LaunchContext& context, Word* target);

/// Runs the executor's synthetic call on a set, several in flight, and compares what comes out.
void expect_scenario(const DeviceSet& devices);

}  // namespace shardwise::test
