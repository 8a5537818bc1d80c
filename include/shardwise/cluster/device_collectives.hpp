#pragma once
// Sums over ranks and messages between them in the memory of their GPUs, without the host: NCCL, which is
// looked for when the program runs.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shardwise/cluster/communicator.hpp"
#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/operation.hpp"
#include "shardwise/runtime/stream.hpp"

namespace shardwise {

/// One GPU of each rank. Calls come from one thread of each rank, and on every rank in the same order. A rank
/// that does not come to a call holds the others' streams up. Where it announces a failure
/// (Communicator::fail), or the link itself has an error, the link is given up: the streams come to their
/// end, check() says why, and so does every call from then on.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  /// "NCCL 2.28.9".
  virtual std::string name() const = 0;
  /// For the body of an operation: enqueues on the context's stream the sum, modulo 2^64, of `count` words of
  /// each rank, into those of rank 0.
  virtual void sum_to_rank_0(LaunchContext& context, std::uint64_t* words, std::uint64_t count) = 0;
  /// One message, as this rank sees it.
  struct Message {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    int peer = 0;
    bool sends = false;
  };
  /// For the body of an operation: enqueues the messages as one group. Between two ranks they are matched by
  /// their order alone.
  virtual void exchange(LaunchContext& context, std::span<const Message> messages) = 0;
  /// To be called by whoever has waited for a stream with such calls, before it uses what they brought:
  /// throws a DependencyError where another rank failed, a device Error where the link did. Never waits.
  virtual void check() {}
  /// Whether check() throws: the ranks have to connect again, all of them.
  virtual bool is_given_up() const { return false; }
};

/// Connects the ranks' GPUs; `stream` is one of the GPU's. Collective. Null, on every rank, where that cannot
/// be, and `*why` says what the lowest such rank lacks: one rank, a device that is no GPU, a GPU that two
/// ranks share, no memory, no NCCL (libnccl.so.2, or the file that SHARDWISE_NCCL names; "off" leaves it
/// out). Throws, on all ranks, a device Error or RankError where NCCL cannot connect them.
std::shared_ptr<DeviceCollectives> connect_devices(Communicator& ranks, Stream& stream, std::string* why);

}  // namespace shardwise
