#pragma once
// Memory of an executor and one worker process, for inputs and outputs of jobs: an anonymous file that both
// map. The executor makes it larger where a job wants more; nobody can make it shorter under the other's
// feet.

#include <cstddef>
#include <cstdint>

namespace shardwise {

class SharedMemory {
 public:
  /// A new one, empty. Throws Error{memory} where the system has none.
  SharedMemory();
  /// The other end of one, by its file, which it takes over. Nothing is mapped yet.
  explicit SharedMemory(int file) : file_(file) {}
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int file() const { return file_; }
  std::byte* data() const { return data_; }
  /// Bytes mapped.
  std::uint64_t size() const { return size_; }

  /// Makes `bytes` usable, at other addresses than before, perhaps. Memory far above that is given back to
  /// the system. Throws Error{memory} where there is not as much.
  void reserve(std::uint64_t bytes);
  /// Maps the first `size` bytes, which the other end has made. Throws Error{internal} where there are fewer.
  void map(std::uint64_t size);

 private:
  void remap(std::uint64_t size);
  int file_ = -1;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t held_ = 0;  ///< bytes that the system has promised
};

}  // namespace shardwise
