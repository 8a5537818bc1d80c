#include "shardwise/grid/field.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "grid/blocks_state.hpp"
#include "grid/pointwise.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

template <class T>
Field<T>::Field(const Blocks& blocks, std::string name) : Field(blocks, std::move(name), blocks.layout()) {}

template <class T>
Field<T>::Field(const Blocks& blocks, std::string name, GhostLayout layout)
    : storage_(std::make_unique<FieldStorage<T>>(blocks, std::move(name))) {
  BlocksState& state = blocks.state();
  for (const int part : state.parts) {
    FieldBlock<T> block;
    block.part = part;
    block.layout = block_layout(blocks.local_grid(part), layout, sizeof(T));
    Stream& stream = state.transport->compute(part);
    block.buffer = QueuedBuffer<T>(state.queue, stream, block.layout.size, storage_->name);
    enqueue_set_all(state.queue, stream, block.buffer, std::numeric_limits<T>::quiet_NaN());
    storage_->local.push_back(std::move(block));
  }
}

template <class T>
Field<T>::Field(Field&&) noexcept = default;
template <class T>
Field<T>& Field<T>::operator=(Field&&) noexcept = default;
template <class T>
Field<T>::~Field() = default;

template <class T>
const Blocks& Field<T>::blocks() const {
  return storage_->blocks;
}
template <class T>
const std::string& Field<T>::name() const {
  return storage_->name;
}

namespace {

template <class T>
FieldBlock<T>& block_of(const FieldStorage<T>& storage, int part, const char* call) {
  for (const FieldBlock<T>& block : storage.local)
    if (block.part == part) return const_cast<FieldBlock<T>&>(block);
  throw GridError(
      GridErrorCode::bad_argument,
      fmt::format("{}: part {} is none of this process' {} parts", call, part, storage.local.size()),
      {static_cast<double>(part)});
}

/// Throws what began a failure, whichever stream of the blocks that was on.
void wait_for(const Blocks& blocks, Stream& stream) {
  try {
    stream.synchronize();
  } catch (const DependencyError&) {
    blocks.synchronize();
    throw;
  }
  blocks.state().transport->check_link();
}

/// What lies in a block's memory, and the reverse; both wait.
template <class T>
std::vector<T> download(const FieldStorage<T>& storage, const FieldBlock<T>& block) {
  BlocksState& state = storage.blocks.state();
  std::vector<T> values(static_cast<std::size_t>(block.layout.size));
  Stream& stream = state.transport->compute(block.part);
  state.queue.enqueue(stream, copy_operation("fetch " + storage.name, values.data(), block.buffer.data(),
                                             values.size() * sizeof(T), {block.buffer.reads()}));
  wait_for(storage.blocks, stream);
  return values;
}

template <class T>
void upload(const FieldStorage<T>& storage, const FieldBlock<T>& block, std::span<const T> values) {
  BlocksState& state = storage.blocks.state();
  Stream& stream = state.transport->compute(block.part);
  state.queue.enqueue(stream, copy_operation("set " + storage.name, block.buffer.data(), values.data(),
                                             values.size_bytes(), {block.buffer.writes()}));
  wait_for(storage.blocks, stream);
}

/// Calls f(element, i, j, k) for every owned cell.
template <class F>
void for_owned(const BlockLayout& l, F&& f) {
  for (std::int64_t k = 0; k < l.cells[2]; ++k)
    for (std::int64_t j = 0; j < l.cells[1]; ++j)
      for (std::int64_t i = 0; i < l.cells[0]; ++i)
        f(static_cast<std::size_t>(l.origin + i + j * l.stride[1] + k * l.stride[2]), i, j, k);
}

std::size_t global_index(const CartesianGrid& b, std::int64_t i, std::int64_t j, std::int64_t k) {
  return static_cast<std::size_t>(
      (b.first(0) + i) + b.global_cells(0) * ((b.first(1) + j) + b.global_cells(1) * (b.first(2) + k)));
}

}  // namespace

template <class T>
void Field<T>::set(const std::function<double(double, double, double)>& f) {
  for (const FieldBlock<T>& block : storage_->local) {
    const CartesianGrid& grid = blocks().local_grid(block.part);
    const int dims = grid.dims();
    std::vector<T> values(static_cast<std::size_t>(block.layout.size), std::numeric_limits<T>::quiet_NaN());
    for_owned(block.layout, [&](std::size_t at, std::int64_t i, std::int64_t j, std::int64_t k) {
      values[at] = static_cast<T>(
          f(grid.centre(0, i), dims > 1 ? grid.centre(1, j) : 0, dims > 2 ? grid.centre(2, k) : 0));
    });
    upload<T>(*storage_, block, values);
  }
}

template <class T>
void Field<T>::fill(T value) {
  BlocksState& state = blocks().state();
  for (const FieldBlock<T>& block : storage_->local)
    enqueue_set_all(state.queue, state.transport->compute(block.part), block.buffer, value);
}

namespace {

/// Calls f(first element, j, k) for every row of owned cells.
template <class F>
void for_rows(const BlockLayout& l, F&& f) {
  for (std::int64_t k = 0; k < l.cells[2]; ++k)
    for (std::int64_t j = 0; j < l.cells[1]; ++j)
      f(static_cast<std::size_t>(l.origin + j * l.stride[1] + k * l.stride[2]), j, k);
}

}  // namespace

template <class T>
std::vector<T> Field<T>::gather(int root) const {
  const Partition& partition = blocks().partition();
  std::vector<T> all;
  const auto allocate = [&] { all.resize(static_cast<std::size_t>(blocks().grid().global_cell_count())); };
  const bool alone = blocks().state().transport->processes() == 1;
  if (alone) allocate();
  // Between processes: the owned cells of the local parts, row by row, one part after the other.
  std::vector<T> mine;
  for (const FieldBlock<T>& block : storage_->local) {
    const std::vector<T> values = download<T>(*storage_, block);
    const CartesianGrid& grid = partition.block(block.part);
    const auto row = static_cast<std::size_t>(block.layout.cells[0]);
    if (!alone) mine.reserve(mine.size() + static_cast<std::size_t>(grid.cell_count()));
    for_rows(block.layout, [&](std::size_t at, std::int64_t j, std::int64_t k) {
      if (alone)
        std::copy_n(values.data() + at, row, all.data() + global_index(grid, 0, j, k));
      else
        mine.insert(mine.end(), values.data() + at, values.data() + at + row);
    });
  }
  if (alone) return all;
  const auto ranks = blocks().state().transport->gather_bytes(std::as_bytes(std::span<const T>(mine)), root);
  if (ranks.empty()) return {};
  allocate();
  int part = 0;  // they ascend with the processes
  for (const std::vector<std::byte>& bytes : ranks)
    for (std::size_t at = 0; at < bytes.size(); ++part) {
      const CartesianGrid& grid = partition.block(part);
      const std::size_t row = static_cast<std::size_t>(grid.cells(0)) * sizeof(T);
      for (std::int64_t k = 0; k < grid.cells(2); ++k)
        for (std::int64_t j = 0; j < grid.cells(1); ++j, at += row)
          std::memcpy(all.data() + global_index(grid, 0, j, k), bytes.data() + at, row);
    }
  return all;
}

template <class T>
void Field<T>::scatter_global(std::span<const T> values) {
  const std::int64_t count = blocks().grid().global_cell_count();
  if (static_cast<std::int64_t>(values.size()) != count)
    throw GridError(GridErrorCode::size_mismatch,
                    fmt::format("scatter_global: {} has {} cells ({}), but {} values were given", name(),
                                count, blocks().grid().shape_text(), values.size()),
                    {static_cast<double>(count), static_cast<double>(values.size())});
  for (const FieldBlock<T>& block : storage_->local) {
    const CartesianGrid& grid = blocks().local_grid(block.part);
    std::vector<T> local(static_cast<std::size_t>(block.layout.size), std::numeric_limits<T>::quiet_NaN());
    for_owned(block.layout, [&](std::size_t at, std::int64_t i, std::int64_t j, std::int64_t k) {
      local[at] = values[global_index(grid, i, j, k)];
    });
    upload<T>(*storage_, block, local);
  }
}

template <class T>
void Field<T>::copy_from(const Field& other) {
  check_blocks(blocks(), other, "copy_from");
  enqueue_axpby<T>(blocks(), *storage_, *other.storage_, T(1), T(0));
}

template <class T>
FieldView<T> Field<T>::view(int part) {
  FieldBlock<T>& block = block_of(*storage_, part, "view");
  BlocksState& state = blocks().state();
  Stream& stream = state.transport->compute(part);
  state.queue.note_write(stream, block.buffer.memory().resource(), block.buffer.bytes());
  return {block.cell(), block.layout, &stream, part, block.buffer.reads()};
}

template <class T>
std::vector<T> Field<T>::memory(int part) const {
  return download<T>(*storage_, block_of(*storage_, part, "memory"));
}

template <class T>
void Field<T>::set_memory(int part, std::span<const T> values) {
  const FieldBlock<T>& block = block_of(*storage_, part, "set_memory");
  if (static_cast<std::int64_t>(values.size()) != block.layout.size)
    throw GridError(GridErrorCode::size_mismatch,
                    fmt::format("set_memory: part {} of {} has {} elements, but {} values were given", part,
                                name(), block.layout.size, values.size()),
                    {static_cast<double>(block.layout.size), static_cast<double>(values.size())});
  upload<T>(*storage_, block, values);
}

template <class T>
const BlockLayout& Field<T>::layout(int part) const {
  return block_of(*storage_, part, "layout").layout;
}

template <class T>
void check_blocks(const Blocks& blocks, const Field<T>& field, const char* call) {
  if (&field.blocks().state() != &blocks.state())
    throw GridError(GridErrorCode::wrong_blocks,
                    fmt::format("{}: the field {} ({}, {}) was made on other blocks ({}, {}); make it on the "
                                "same Blocks",
                                call, field.name(), field.blocks().grid().shape_text(),
                                field.blocks().transport(), blocks.grid().shape_text(), blocks.transport()));
}

template class Field<float>;
template class Field<double>;
template void check_blocks(const Blocks&, const Field<float>&, const char*);
template void check_blocks(const Blocks&, const Field<double>&, const char*);

}  // namespace shardwise
