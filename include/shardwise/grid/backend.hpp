#pragma once
// Where the blocks of a grid live and how bytes get from one to another.
//
// A backend is a small description (Serial, LocalDevices, Mpi, or one of your own) with two members:
//
//     PartitionRequest request() const;                                       how many parts
//     std::unique_ptr<BlockTransport> connect(const Partition&) const;        streams and messages
//
// It is always given explicitly; nothing is guessed from the environment. Everything else (partitions,
// operators, exchanges, solvers, tests) is written once, over BlockTransport.

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardwise/grid/partition.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {

/// One contiguous piece of a halo exchange. Identified by (dimension, side of the receiver), never by the
/// peer alone: with two periodic parts both messages go to the same one. Between two partitions of the same
/// parts (multigrid levels) there is one message for each pair of parts, of dimension `window`.
struct Message {
  static constexpr int window = 3;
  int source = 0, target = 0;    ///< parts
  int dimension = 0, side = 0;   ///< as the receiver sees it
  const Memory* from = nullptr;  ///< null where the source is no part of this process
  std::uint64_t from_begin = 0;
  const Memory* to = nullptr;  ///< null where the target is no part of this process
  std::uint64_t to_begin = 0;
  std::uint64_t bytes = 0;
};

/// Enqueues an operation with the order that its accesses ask for: what a transport puts its copies into.
class OrderedQueue {
 public:
  virtual ~OrderedQueue() = default;
  virtual void enqueue(Stream& stream, Operation operation) = 0;
};

/// The primitives of a backend. Made by connect() for one partition; calls come from one host thread, and on
/// every rank in the same order.
class BlockTransport {
 public:
  virtual ~BlockTransport() = default;
  virtual std::string name() const = 0;
  /// The parts that this process owns, ascending.
  virtual std::vector<int> local_parts() const = 0;
  /// The in-order stream that a local part's work goes to, and the one for its messages (may be the same).
  virtual Stream& compute(int part) = 0;
  virtual Stream& transfer(int part) = 0;
  /// Moves the messages. Copies are enqueued into `queue`, on transfer(target), with their accesses declared.
  virtual void move(const std::vector<Message>& messages, OrderedQueue& queue) = 0;
  /// Memory on the host that streams copy to without holding anyone up.
  virtual std::shared_ptr<void> host_memory(std::uint64_t bytes) = 0;
  /// Every process' words, in rank order: the words of this one, where there is one process.
  virtual std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) = 0;
  /// Whether all processes say yes; asked before something is thrown that depends on rank-local data.
  virtual bool agree(bool yes) = 0;
  /// The scheduler of simulated devices, null elsewhere.
  virtual SimWorld* sim_world() const { return nullptr; }
};

template <class B>
concept DistributedBackend = requires(const B& backend, const Partition& partition) {
  { backend.request() } -> std::convertible_to<PartitionRequest>;
  { backend.connect(partition) } -> std::same_as<std::unique_ptr<BlockTransport>>;
};

/// All blocks on the calling thread, one after the other: the reference, and what needs no device.
struct Serial {
  int parts = 1;
  std::array<int, 3> process_grid{0, 0, 0};  ///< 0 is free; all 0: slabs
  bool blocks = false;                       ///< choose a process grid of least cut area

  PartitionRequest request() const { return {parts, process_grid, blocks}; }
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const;
};

/// Blocks on the devices of one process, any platform. Parts are spread evenly in order, and may outnumber
/// the devices.
struct LocalDevices {
  DeviceSet devices;
  int parts = 0;  ///< 0: one a device
  std::array<int, 3> process_grid{0, 0, 0};
  bool blocks = false;

  PartitionRequest request() const;
  /// Throws too_many_devices where there are more devices than parts.
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const;
};

/// One process a device, over MPI. Part of a build with SHARDWISE_WITH_MPI; without, connect() says so.
struct Mpi {
  std::array<int, 3> process_grid{0, 0, 0};

  PartitionRequest request() const;
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const;
};

/// Whether this build has a backend.
template <class B>
constexpr bool is_available() {
  return !std::same_as<B, Mpi>;
}

static_assert(DistributedBackend<Serial> && DistributedBackend<LocalDevices> && DistributedBackend<Mpi>);

}  // namespace shardwise
