#include "shardwise/dispatch/row_table.hpp"

#include <cstring>

#include "dispatch/row_memory.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

void RowTable::read(int column, std::span<std::byte> target) const {
  const auto c = static_cast<std::size_t>(column);
  const std::uint64_t bytes = row_bytes[c];
  for (const RowBlock& block : blocks) {
    if (block.window.empty() || bytes == 0) continue;
    const std::uint64_t count = static_cast<std::uint64_t>(block.window.count) * bytes;
    std::byte* to = target.data() + static_cast<std::uint64_t>(block.window.begin) * bytes;
    if (block.device == RowBlock::on_host) {
      std::memcpy(to, block.columns[c], count);
      continue;
    }
    Stream& stream = *streams[static_cast<std::size_t>(block.device)];
    Access reads;
    reads.resource = block.memory.resource();
    reads.length = static_cast<std::uint64_t>(block.window.count);
    AccessList accesses;
    if (reads.resource != 0) accesses.add(reads);
    add_callers_memory(accesses, stream.device(), block.columns[c], AccessMode::read);
    stream.enqueue(copy_operation("read " + names[c], to, block.columns[c], count, accesses));
    stream.synchronize();
  }
}

const void* RowTable::in_place(int column) const {
  const auto c = static_cast<std::size_t>(column);
  if (blocks.size() > 1)
    throw_state("rows: column " + names[c] + " lies in " + std::to_string(blocks.size()) +
                " blocks; call to_host()");
  const RowBlock& block = blocks.front();
  if (block.device != RowBlock::on_host &&
      streams[static_cast<std::size_t>(block.device)]->device().kind() == PlatformKind::cuda)
    throw_state("rows: column " + names[c] + " lies in the memory of " +
                streams[static_cast<std::size_t>(block.device)]->device().name() + "; call to_host()");
  return block.columns[c];
}

}  // namespace shardwise
