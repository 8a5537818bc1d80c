#include "dispatch/row_memory.hpp"

#include "runtime/packed_memory.hpp"
#include "runtime/pinned_memory.hpp"
#include "runtime/sim/sim_world.hpp"

namespace shardwise {

void add_callers_memory(AccessList& accesses, Device& device, const void* column, AccessMode mode) {
  auto* const master = dynamic_cast<SimDevice*>(&device);
  if (!master || !column) return;
  Access access;
  access.resource = master->world().memory().resource_of(column);
  access.length = 1;
  access.mode = mode;
  if (access.resource == 0 || accesses.size() == AccessList::capacity) return;
  for (const Access& known : accesses)
    if (known.resource == access.resource && known.mode == mode) return;
  accesses.add(access);
}

std::shared_ptr<RowTable> make_row_table(const RowOperation& operation, std::int64_t rows,
                                         Executor& executor) {
  auto table = std::make_shared<RowTable>();
  table->rows = rows;
  for (const RowColumn& column : operation.outputs) {
    table->names.push_back(column.name);
    table->row_bytes.push_back(column.row_bytes);
  }
  for (const stream_ref& stream : executor.default_context().streams) table->streams.push_back(&*stream);
  return table;
}

RowBlock& add_row_block(RowTable& table, const RowOperation& operation, const RowSink& sink,
                        const DeviceSet& devices, int device, Window window, Stream& stream) {
  RowBlock& block = table.blocks.emplace_back();
  block.device = device;
  block.window = window;
  const auto of_caller = [&](std::size_t c) -> void* {
    return c < sink.memory.size() ? sink.memory[c].data() : nullptr;
  };
  PackedMemory layout;
  std::vector<std::uint64_t> offsets;
  for (std::size_t c = 0; c < operation.outputs.size(); ++c) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(window.count) * operation.outputs[c].row_bytes;
    offsets.push_back(layout.add<std::byte>(of_caller(c) ? 0 : bytes).offset);
  }
  std::byte* base = nullptr;
  if (device == RowBlock::on_host) {
    block.host_memory = allocate_pinned(devices, layout.size(), operation.name.c_str());
    base = static_cast<std::byte*>(block.host_memory.get());
  } else {
    block.memory = Memory(stream, layout.size(), operation.name + " result");
    base = static_cast<std::byte*>(block.memory.data());
  }
  for (std::size_t c = 0; c < operation.outputs.size(); ++c)
    block.columns.push_back(operation.outputs[c].row_bytes == 0 ? nullptr
                            : of_caller(c)                      ? of_caller(c)
                                                                : base + offsets[c]);
  return block;
}

}  // namespace shardwise
