#pragma once
// Counter-based random numbers: Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). A draw depends on (seed, lane, stream, block) alone, never on a
// device or a chunk.

#include <cstdint>

#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

/// Four words of one block.
struct PhiloxWords {
  std::uint32_t word[4];

  /// Word k as a float in [0, 1), 24 bits.
  SW_HD constexpr float uniform_float(int k) const { return static_cast<float>(word[k] >> 8) * 0x1p-24f; }
  /// Words 2 pair and 2 pair + 1 as a double in [0, 1), 53 bits.
  SW_HD constexpr double uniform_double(int pair) const {
    return static_cast<double>(wide(pair) >> 11) * 0x1p-53;
  }
  /// Words 2 pair and 2 pair + 1 as an index in [0, count), count < 2^32; the bias is below 2^-32.
  SW_HD constexpr std::uint32_t index(int pair, std::uint32_t count) const {
    const std::uint64_t bits = wide(pair), low = (bits & 0xffffffffu) * count;
    return static_cast<std::uint32_t>(((bits >> 32) * count + (low >> 32)) >> 32);
  }
  /// w(2 pair) + 2^32 w(2 pair + 1).
  SW_HD constexpr std::uint64_t wide(int pair) const {
    return (static_cast<std::uint64_t>(word[2 * pair + 1]) << 32) | word[2 * pair];
  }
};

/// The raw bijection: ten rounds.
SW_HD constexpr PhiloxWords philox4x32_10(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  std::uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = static_cast<std::uint64_t>(0xD2511F53u) * c0;
    const std::uint64_t b = static_cast<std::uint64_t>(0xCD9E8D57u) * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ key0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ key1;
    c1 = static_cast<std::uint32_t>(b);
    c3 = static_cast<std::uint32_t>(a);
    c0 = n0;
    c2 = n2;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The block `block` of `stream` (random_streams.hpp) for a global lane.
SW_HD constexpr PhiloxWords philox(std::uint64_t seed, std::uint64_t lane, std::uint32_t stream,
                                   std::uint32_t block = 0) {
  return philox4x32_10(
      {{static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(lane >> 32), stream, block}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

}  // namespace shardwise
