#pragma once

#include "grid/operation_queue.hpp"
#include "shardwise/grid/blocks.hpp"
#include "shardwise/grid/field.hpp"

namespace shardwise {

/// What Blocks share. Streams belong to the transport, so it goes last.
struct BlocksState {
  /// `shared`: the queue of other blocks on the same streams, so that operations on fields of both are
  /// ordered too; null: one of its own.
  BlocksState(Partition p, GhostLayout l, std::unique_ptr<BlockTransport> t,
              std::shared_ptr<OperationQueue> shared = nullptr)
      : partition(std::move(p)),
        layout(l),
        transport(std::move(t)),
        parts(transport->local_parts()),
        queue_owner(shared ? std::move(shared) : std::make_shared<OperationQueue>()),
        queue(*queue_owner) {}
  Partition partition;
  GhostLayout layout;
  std::unique_ptr<BlockTransport> transport;
  std::vector<int> parts;
  std::shared_ptr<OperationQueue> queue_owner;
  OperationQueue& queue;
};

/// A buffer whose uses on other streams the queue knows: released behind them.
template <class T>
class QueuedBuffer {
 public:
  QueuedBuffer() = default;
  QueuedBuffer(OperationQueue& queue, Stream& stream, std::int64_t size, std::string name)
      : queue_(&queue), stream_(&stream), buffer_(stream, static_cast<std::uint64_t>(size), std::move(name)) {
    queue.note_allocation(stream, buffer_.memory().resource(), buffer_.bytes());
  }
  QueuedBuffer(QueuedBuffer&& other) noexcept
      : queue_(std::exchange(other.queue_, nullptr)),
        stream_(other.stream_),
        buffer_(std::move(other.buffer_)) {}
  QueuedBuffer& operator=(QueuedBuffer&& other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(stream_, other.stream_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~QueuedBuffer() {
    if (!queue_ || !buffer_.data()) return;
    try {
      queue_->retire(*stream_, buffer_.memory().resource());
    } catch (...) {  // a lost device: its stream reports it to whoever waits
    }
  }

  T* data() const { return buffer_.data(); }
  std::int64_t size() const { return static_cast<std::int64_t>(buffer_.size()); }
  const Memory& memory() const { return buffer_.memory(); }
  Access reads() const { return buffer_.reads(); }
  Access writes() const { return buffer_.writes(); }
  std::uint64_t bytes() const { return buffer_.bytes(); }
  Stream& stream() const { return *stream_; }

 private:
  OperationQueue* queue_ = nullptr;
  Stream* stream_ = nullptr;
  Buffer<T> buffer_;
};

/// A block as an operation captures it: nothing of the Field, which may go away before the operation runs.
template <class T>
struct BlockRef {
  T* cell = nullptr;
  BlockLayout layout;
};

template <class T>
struct FieldBlock {
  int part = 0;
  BlockLayout layout;
  QueuedBuffer<T> buffer;
  T* cell() const { return buffer.data() + layout.origin; }
  BlockRef<T> ref() const { return {cell(), layout}; }
  /// Access to all of it; to the owned cells.
  Access access(AccessMode mode) const { return buffer.memory().access(mode); }
  Access owned(AccessMode mode) const;
};

template <class T>
struct FieldStorage {
  FieldStorage(const Blocks& b, std::string n) : blocks(b), name(std::move(n)) {}
  Blocks blocks;
  std::string name;
  std::vector<FieldBlock<T>> local;
};

BlockLayout block_layout(const CartesianGrid& block, GhostLayout layout, int element_bytes);

/// The bytes of cells [lo, hi) (ghosts have indices outside) of a layout, as one strided box.
Access box_access(const Memory& memory, const BlockLayout& layout, int element_bytes,
                  const std::array<std::int64_t, 3>& lo, const std::array<std::int64_t, 3>& hi,
                  AccessMode mode);
/// All owned cells.
Access owned_access(const Memory& memory, const BlockLayout& layout, int element_bytes, AccessMode mode);

template <class T>
Access FieldBlock<T>::owned(AccessMode mode) const {
  return owned_access(buffer.memory(), layout, sizeof(T), mode);
}

/// Throws wrong_blocks where the field is not of these blocks.
template <class T>
void check_blocks(const Blocks& blocks, const Field<T>& field, const char* call);

}  // namespace shardwise
