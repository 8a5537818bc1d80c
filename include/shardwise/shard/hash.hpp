#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shardwise {

/// BLAKE3, the plain 256-bit hash of O'Connor, Aumasson, Neves and Wilcox-O'Hearn, "BLAKE3: one function,
/// fast everywhere" (2020), section 2. Portable; eight chunks are hashed side by side where the input is long
/// enough. The digest of a sequence of updates is that of the bytes in a row, however they are cut.
///
///     Blake3 hasher;
///     hasher.update(map.data(), map.size() * sizeof(double));
///     std::string digest = hasher.hex();
class Blake3 {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  Blake3();
  /// `data` may be null where `bytes` is 0.
  Blake3& update(const void* data, std::size_t bytes);
  Blake3& update(std::span<const std::byte> data) { return update(data.data(), data.size()); }
  Blake3& update(std::string_view text) { return update(text.data(), text.size()); }

  /// Of everything so far; more may follow.
  Digest digest() const;
  /// The digest as 64 lower-case hex digits.
  std::string hex() const;

 private:
  static constexpr std::size_t kChunkBytes = 1024, kBlockBytes = 64;
  using Words = std::array<std::uint32_t, 8>;

  void absorb(const std::uint8_t* data, std::size_t bytes);
  void finish_chunk();
  void push(Words chaining_value);

  // The chunk being filled: its chaining value after `blocks_` whole blocks, then `filled_` bytes of the next
  // block. A block is compressed only when a further byte arrives, because the last block of a chunk carries
  // a flag.
  Words chunk_value_;
  std::array<std::uint8_t, kBlockBytes> block_{};
  std::size_t blocks_ = 0, filled_ = 0;
  std::uint64_t chunks_ = 0;  ///< that are complete
  // Roots of the complete subtrees to the left, largest first: one for each set bit of chunks_. 2^54 chunks
  // hold every 64-bit length.
  std::array<Words, 55> stack_{};
  std::size_t depth_ = 0;
};

/// The digest of one piece of memory as 64 lower-case hex digits.
std::string blake3_hex(const void* data, std::size_t bytes);

}  // namespace shardwise
