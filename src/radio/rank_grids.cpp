#include "radio/rank_grids.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "radio/coverage_steps_kernel.hpp"
#include "runtime/for_each.hpp"
#include "runtime/pinned_memory.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {
namespace {

constexpr int grid_tag = 2;
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
static_assert(piece_bytes % sizeof(ExactCell) == 0);
/// Pieces under way between two ranks.
constexpr std::size_t depth = 4;
constexpr const char* grids_text = "coverage: exact grids";

/// Piece `index` of all grids, as far as `range` has it.
GridBytes piece_of(std::uint64_t index, const GridBytes& range) {
  return {std::max(range.begin, index * piece_bytes), std::min(range.end, (index + 1) * piece_bytes)};
}

std::uint64_t first_piece(const GridBytes& range) {
  return range.begin / piece_bytes;
}
std::uint64_t end_piece(const GridBytes& range) {
  return (range.end + piece_bytes - 1) / piece_bytes;
}

/// One rank's cells, as pieces see them.
struct HeldCells {
  const DeviceSet& devices;
  Stream& stream;
  Memory& cells;
  std::uint64_t held_from;
  std::byte* at(const GridBytes& piece) const {
    return static_cast<std::byte*>(cells.data()) + (piece.begin - held_from);
  }
  Access access(AccessMode mode, const GridBytes& piece) const {
    return cells.access(mode, piece.begin - held_from, piece.end - piece.begin);
  }
};

/// A place in host memory for one piece; the message goes before the memory does.
struct Slot {
  std::shared_ptr<void> memory;
  Event used;  ///< the stream needs the memory no longer
  std::unique_ptr<RankMessage> message;
  std::byte* data() const { return static_cast<std::byte*>(memory.get()); }
};

std::array<Slot, depth> make_slots(const DeviceSet& devices) {
  std::array<Slot, depth> slots;
  for (Slot& slot : slots) slot.memory = allocate_pinned(devices, piece_bytes, grids_text);
  return slots;
}

/// What one rank sends to this one.
class IncomingGrids {
 public:
  IncomingGrids(Communicator& ranks, const HeldCells& held, int source, const GridBytes& range)
      : ranks_(ranks),
        held_(held),
        source_(source),
        range_(range),
        next_(first_piece(range)),
        scratch_(held.stream, piece_bytes, "incoming grids"),
        slots_(make_slots(held.devices)) {
    while (next_ < std::min(end_piece(range_), first_piece(range_) + depth)) post();
  }

  /// Waits for the piece where the rank has one, and enqueues that it is added.
  void add(std::uint64_t index) {
    if (index < first_piece(range_) || index >= end_piece(range_)) return;
    Slot& slot = slots_[index % depth];
    slot.message->wait();
    const GridBytes piece = piece_of(index, range_);
    const std::uint64_t bytes = piece.end - piece.begin;
    held_.stream.enqueue(copy_operation("grids in", scratch_.data(), slot.data(), bytes,
                                        {scratch_.access(AccessMode::write, 0, bytes)}));
    slot.used = held_.stream.record();
    Operation merge;
    merge.name = "merge grids of a rank";
    merge.accesses = {scratch_.access(AccessMode::read, 0, bytes), held_.access(AccessMode::write, piece)};
    merge.body = [to = reinterpret_cast<ExactCell*>(held_.at(piece)),
                  from = static_cast<const ExactCell*>(scratch_.data()),
                  count = static_cast<std::int64_t>(bytes / sizeof(ExactCell))](LaunchContext& context) {
      for_each(context, count, MergeExact{to, from, nullptr, nullptr});
    };
    held_.stream.enqueue(std::move(merge));
    // The slot of the piece before is free by now, or soon.
    if (index > first_piece(range_) && next_ < end_piece(range_)) post();
  }

 private:
  void post() {
    Slot& slot = slots_[next_ % depth];
    slot.used.wait_on_host();
    const GridBytes piece = piece_of(next_++, range_);
    slot.message = ranks_.receive({slot.data(), piece.end - piece.begin}, source_, grid_tag, grids_text);
  }

  Communicator& ranks_;
  const HeldCells& held_;
  int source_;
  GridBytes range_;
  std::uint64_t next_;  ///< piece that is not asked for yet
  Memory scratch_;
  std::array<Slot, depth> slots_;
};

/// What this rank sends to another.
class OutgoingGrids {
 public:
  OutgoingGrids(Communicator& ranks, const HeldCells& held, int target, const GridBytes& range)
      : ranks_(ranks), held_(held), target_(target), range_(range), slots_(make_slots(held.devices)) {}

  /// Enqueues that the piece comes to the host, and sends the one before.
  void send(std::uint64_t index) {
    Slot& slot = slots_[index % depth];
    if (slot.message) slot.message->wait();
    slot.message.reset();
    const GridBytes piece = piece_of(index, range_);
    held_.stream.enqueue(copy_operation("grids out", slot.data(), held_.at(piece), piece.end - piece.begin,
                                        {held_.access(AccessMode::read, piece)}));
    slot.used = held_.stream.record();
    if (index > first_piece(range_)) pass_on(index - 1);
    if (index + 1 == end_piece(range_)) pass_on(index);
  }
  void finish() {
    for (Slot& slot : slots_)
      if (slot.message) slot.message->wait();
  }

 private:
  void pass_on(std::uint64_t index) {
    Slot& slot = slots_[index % depth];
    slot.used.wait_on_host();
    if (slot.used.failed()) held_.stream.synchronize();  // throws what went wrong
    const GridBytes piece = piece_of(index, range_);
    slot.message = ranks_.send({slot.data(), piece.end - piece.begin}, target_, grid_tag, grids_text);
  }

  Communicator& ranks_;
  const HeldCells& held_;
  int target_;
  GridBytes range_;
  std::array<Slot, depth> slots_;
};

int lowest_bit(int rank) {
  return rank & -rank;
}

}  // namespace

int end_of_rank_tree(int rank, int size) {
  return rank == 0 ? size : std::min(size, rank + lowest_bit(rank));
}

void join_grids(Communicator& ranks, const DeviceSet& devices, Stream& stream, Memory& cells,
                std::uint64_t held_from, const std::vector<GridBytes>& of_tree) {
  const int rank = ranks.rank();
  const GridBytes mine = of_tree[static_cast<std::size_t>(rank)];
  if (mine.empty()) return;
  const HeldCells held{devices, stream, cells, held_from};
  std::vector<std::unique_ptr<IncomingGrids>> incoming;
  for (int step = 1; rank + step < end_of_rank_tree(rank, ranks.size()); step *= 2)
    if (const GridBytes& range = of_tree[static_cast<std::size_t>(rank + step)]; !range.empty())
      incoming.push_back(std::make_unique<IncomingGrids>(ranks, held, rank + step, range));
  std::unique_ptr<OutgoingGrids> outgoing;
  if (rank > 0) outgoing = std::make_unique<OutgoingGrids>(ranks, held, rank - lowest_bit(rank), mine);
  try {
    for (std::uint64_t index = first_piece(mine); index < end_piece(mine); ++index) {
      for (const auto& grids : incoming) grids->add(index);
      if (outgoing) outgoing->send(index);
    }
    if (outgoing) outgoing->finish();
  } catch (...) {
    // Nothing may be copied to or from slots that are gone.
    try {
      stream.synchronize();
    } catch (const Error&) {
    }
    throw;
  }
  stream.synchronize();
}

}  // namespace shardwise
