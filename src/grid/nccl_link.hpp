#pragma once
// Messages between GPUs of several processes through NCCL, which is looked for when it is first wanted
// (libnccl.so.2, or what SHARDWISE_NCCL_LIBRARY names); nothing links against it.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shardwise/cluster/communicator.hpp"
#include "shardwise/runtime/stream.hpp"

namespace shardwise {

/// NCCL's own group of the ranks of a communicator, with one GPU each.
class NcclLink {
 public:
  struct Part {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    int peer = 0;
    bool send = false;
  };

  virtual ~NcclLink() = default;
  /// Why there is no NCCL for this process; empty: there is.
  static std::string obstacle();
  /// Collective; `stream` is one of this rank's GPU. Throws a device error that says what NCCL said.
  static std::shared_ptr<NcclLink> connect(Communicator& ranks, Stream& stream);

  /// Enqueues the parts as one group on a CUDA stream; from inside of an operation's body. All ranks give
  /// matching groups in the same order.
  virtual void enqueue(void* native_stream, std::span<const Part> parts) = 0;
  virtual std::string version() const = 0;
};

}  // namespace shardwise
