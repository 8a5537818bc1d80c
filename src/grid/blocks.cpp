#include "shardwise/grid/blocks.hpp"

#include "grid/blocks_state.hpp"

namespace shardwise {

const char* to_string(GhostLayout layout) noexcept {
  switch (layout) {
    case GhostLayout::planes:
      return "planes";
    case GhostLayout::padded:
      return "padded";
    case GhostLayout::pitched:
      return "pitched";
  }
  return "unknown";
}

Blocks::Blocks(Partition partition, GhostLayout layout, const Connect& connect) {
  std::unique_ptr<BlockTransport> transport = connect(partition);
  state_ = std::make_shared<BlocksState>(std::move(partition), layout, std::move(transport));
}

const CartesianGrid& Blocks::grid() const {
  return state_->partition.grid();
}
const Partition& Blocks::partition() const {
  return state_->partition;
}
GhostLayout Blocks::layout() const {
  return state_->layout;
}
const std::vector<int>& Blocks::local_parts() const {
  return state_->parts;
}
std::string Blocks::transport() const {
  return state_->transport->name();
}
SimWorld* Blocks::sim_world() const {
  return state_->transport->sim_world();
}

void Blocks::synchronize() const {
  std::exception_ptr first;
  for (const int part : state_->parts)
    for (Stream* stream : {&state_->transport->compute(part), &state_->transport->transfer(part)}) try {
        stream->synchronize();
      } catch (const DependencyError&) {
        if (!first) first = std::current_exception();
      } catch (...) {
        first = std::current_exception();
      }
  if (first) std::rethrow_exception(first);
  state_->transport->check_link();
}

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

//   planes                        padded                      pitched: as padded, rows from 128-byte lines
//   gggggggg   ghost plane        gggggggggg
//   oooooooo   owned planes       goooooooog
//   oooooooo                      goooooooog
//   gggggggg   ghost plane        gggggggggg
BlockLayout block_layout(const CartesianGrid& block, GhostLayout layout, int element_bytes) {
  BlockLayout result;
  for (int d = 0; d < 3; ++d) {
    const auto i = static_cast<std::size_t>(d);
    result.cells[i] = block.cells(d);
    const bool cut = block.boundary(d, 0).kind == BoundaryKind::interface ||
                     block.boundary(d, 1).kind == BoundaryKind::interface;
    result.halo[i] = layout != GhostLayout::planes || cut ? block.halo(d) : 0;
  }
  const std::int64_t line = 128 / element_bytes;
  const bool pitch = layout != GhostLayout::padded && result.halo[0] > 0;
  const std::int64_t lead = pitch ? round_up(result.halo[0], line) : result.halo[0];
  const std::int64_t row = lead + result.cells[0] + result.halo[0];
  result.stride = {1, pitch ? round_up(row, line) : row, 0};
  result.stride[2] = result.stride[1] * (result.cells[1] + 2 * result.halo[1]);
  result.origin = lead + result.halo[1] * result.stride[1] + result.halo[2] * result.stride[2];
  result.size = result.stride[2] * (result.cells[2] + 2 * result.halo[2]);
  return result;
}

Access box_access(const Memory& memory, const BlockLayout& layout, int element_bytes,
                  const std::array<std::int64_t, 3>& lo, const std::array<std::int64_t, 3>& hi,
                  AccessMode mode) {
  const auto bytes = static_cast<std::uint64_t>(element_bytes);
  Access access;
  access.resource = memory.resource();
  access.mode = mode;
  std::int64_t begin = layout.origin;
  std::array<std::int64_t, 3> count{};
  for (std::size_t d = 0; d < 3; ++d) {
    begin += lo[d] * layout.stride[d];
    count[d] = hi[d] - lo[d];
    if (count[d] <= 0) return access;  // touches nothing
  }
  access.begin = static_cast<std::uint64_t>(begin) * bytes;
  access.length = static_cast<std::uint64_t>(count[0]) * bytes;
  access.stride0 = static_cast<std::uint64_t>(layout.stride[1]) * bytes;
  access.stride1 = static_cast<std::uint64_t>(layout.stride[2]) * bytes;
  access.count0 = static_cast<std::uint32_t>(count[1]);
  access.count1 = static_cast<std::uint32_t>(count[2]);
  // Rows and planes without gaps are one range.
  if (access.length == access.stride0 || access.count0 == 1) {
    access.length += (access.count0 - 1) * access.stride0;
    access.count0 = 1;
    if (access.length == access.stride1 || access.count1 == 1) {
      access.length += (access.count1 - 1) * access.stride1;
      access.count1 = 1;
    }
  }
  return access;
}

Access owned_access(const Memory& memory, const BlockLayout& layout, int element_bytes, AccessMode mode) {
  return box_access(memory, layout, element_bytes, {0, 0, 0}, layout.cells, mode);
}

}  // namespace shardwise
