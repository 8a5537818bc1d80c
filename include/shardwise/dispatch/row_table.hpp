#pragma once
// Columns of rows in device or host memory: what calls on rows leave behind.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardwise/runtime/buffer.hpp"
#include "shardwise/shard/split.hpp"

namespace shardwise {

/// The columns of a window of rows, in one place.
struct RowBlock {
  int device = 0;  ///< index in the device set; on_host: none
  Window window;
  std::vector<void*> columns;  ///< at the window's first row; null: the column is not there
  Memory memory;  ///< owned device memory. Its accesses are declared in rows of the window, not in bytes
  std::shared_ptr<void> host_memory;  ///< owned host memory
  static constexpr int on_host = -1;
};

/// Rows in blocks, ascending and without gaps. To be destroyed before the scene that made it.
struct RowTable {
  std::int64_t rows = 0;
  std::vector<std::string> names;        ///< of the columns
  std::vector<std::uint32_t> row_bytes;  ///< of the columns; 0: not there
  std::vector<RowBlock> blocks;
  std::vector<Stream*> streams;  ///< one a device, to read with

  /// All rows of a column, copied to host memory. Blocks until they are there.
  void read(int column, std::span<std::byte> target) const;
  /// The column where the host can read it in place: one block, in the memory of the host, or of a host or
  /// sim device. Throws a state error that says what to call elsewhere.
  const void* in_place(int column) const;
};

/// A typed view of a column of a result, `slots` values a row; shares the table.
template <class T>
class Column {
 public:
  Column() = default;
  Column(std::shared_ptr<const RowTable> table, int index, int slots = 1)
      : table_(std::move(table)), index_(index), slots_(slots) {}

  /// Whether the call was asked for it.
  bool exists() const { return table_ && table_->row_bytes[static_cast<std::size_t>(index_)] > 0; }
  std::int64_t rows() const { return table_ ? table_->rows : 0; }
  int slots() const { return slots_; }
  /// [rows x slots], copied to the host from wherever it lies.
  std::vector<T> to_host() const {
    std::vector<T> values(static_cast<std::size_t>(rows() * slots_));
    if (table_) table_->read(index_, std::as_writable_bytes(std::span<T>(values)));
    return values;
  }
  /// [rows x slots] without a copy: for results in host memory and on host devices.
  std::span<const T> span() const {
    if (rows() == 0) return {};
    return {static_cast<const T*>(table_->in_place(index_)), static_cast<std::size_t>(rows() * slots_)};
  }
  /// The memory of a result that is in one place: device memory on CUDA.
  const T* data() const {
    return table_ && table_->blocks.size() == 1
               ? static_cast<const T*>(table_->blocks.front().columns[static_cast<std::size_t>(index_)])
               : nullptr;
  }
  const std::shared_ptr<const RowTable>& table() const { return table_; }
  int index() const { return index_; }

 private:
  std::shared_ptr<const RowTable> table_;
  int index_ = 0, slots_ = 1;
};

}  // namespace shardwise
