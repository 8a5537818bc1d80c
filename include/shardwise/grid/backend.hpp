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
#include <span>
#include <string>
#include <vector>

#include "shardwise/cluster/communicator.hpp"
#include "shardwise/grid/partition.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {

/// One contiguous piece of a halo exchange. Of the messages of a move() each has an end in this process.
/// Identified by (dimension, side of the receiver), never by the peer alone: with two periodic parts both
/// messages go to the same one. Between two partitions of the same parts (multigrid levels) there is one
/// message for each pair of parts, of dimension `window`.
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
  /// How many processes have parts, this one included.
  virtual int processes() const { return 1; }
  /// What every process gave, by rank: on process `root` (elsewhere empty), on every one where that is -1.
  virtual std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> bytes, int root) {
    (void)root;
    return {{bytes.begin(), bytes.end()}};
  }
  /// Whether move() holds up the calling thread: work that needs no ghosts is then given to the devices
  /// first.
  virtual bool move_waits() const { return false; }
  /// Called by whoever has waited for the streams: throws where messages that they wait for will not come.
  virtual void check_link() {}
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

/// How bytes get from one rank to another.
enum class RankRoute : std::uint8_t {
  automatic,        ///< between GPUs: nccl, else device_pointers, else staged; elsewhere device_pointers
  nccl,             ///< GPUs, in the order of their streams: nobody waits on the host
  device_pointers,  ///< the memory of the fields is handed to the communicator, which reaches it
  staged,           ///< through pinned host memory
};
const char* to_string(RankRoute route) noexcept;

/// One part a rank of a communicator: mpi_world() (shardwise/cluster/mpi.hpp, a library of its own), or
/// single_process(). All ranks make the same blocks, fields and operators and call them in the same order,
/// each with its own device. The communicator's collectives are used too, and its tags from 16,384 on: give
/// a duplicate() where others use those.
///
///     Blocks blocks(grid, Mpi{world, open_devices("cuda:0")});
struct Mpi {
  std::shared_ptr<Communicator> ranks;
  DeviceSet devices{};  ///< this rank's one; none: the calling thread
  std::array<int, 3> process_grid{0, 0, 0};
  bool blocks = false;  ///< as in Serial
  /// By dimension of a face; what moves between levels of Multigrid takes the last one. A route that does not
  /// work is an error on all ranks. `automatic` tries routes with a pattern between every pair of ranks,
  /// agrees on the first that works, and warns where that is not the first.
  std::array<RankRoute, 3> route{};

  /// Throws unavailable without a communicator.
  PartitionRequest request() const;
  /// Collective. Throws too_many_devices where a rank has more than one.
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const;
};

/// Whether this build has a backend. All of the library are always there; processes come with a communicator.
template <class B>
constexpr bool is_available() {
  return true;
}

static_assert(DistributedBackend<Serial> && DistributedBackend<LocalDevices> && DistributedBackend<Mpi>);

}  // namespace shardwise
