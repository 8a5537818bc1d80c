#pragma once
// NCCL by its C interface, found with dlopen. The declarations are those of NCCL 2.7 and later (nccl.h), as
// far as they are used.

#include <cstddef>
#include <memory>
#include <string>

#include "shardwise/cluster/device_collectives.hpp"
#include "shardwise/runtime/buffer.hpp"

namespace shardwise {

struct NcclId {
  char internal[128];
};
using NcclComm = void*;

struct Nccl {
  static constexpr int success = 0, in_progress = 7, bytes = 0 /* ncclInt8 */, uint64 = 5, sum = 0;

  int (*version)(int*) = nullptr;
  int (*unique_id)(NcclId*) = nullptr;
  int (*init_rank)(NcclComm*, int, NcclId, int) = nullptr;
  int (*reduce)(const void*, void*, std::size_t, int, int, int, NcclComm, void*) = nullptr;
  int (*send)(const void*, std::size_t, int, int, NcclComm, void*) = nullptr;
  int (*receive)(void*, std::size_t, int, int, NcclComm, void*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*destroy)(NcclComm) = nullptr;
  int (*abort)(NcclComm) = nullptr;
  int (*async_error)(NcclComm, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
};

/// libnccl.so.2, or the file that SHARDWISE_NCCL names, opened once a process; null, and why.
const Nccl* load_nccl(std::string* why);

/// The second half of connect_devices(): all ranks have the library, and a device of their own. `words`: some
/// memory of the stream's device. Collective; throws on all ranks.
std::shared_ptr<DeviceCollectives> connect_nccl(const Nccl& nccl, Communicator& ranks, Stream& stream,
                                                Memory& words);

}  // namespace shardwise
