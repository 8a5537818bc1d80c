#include "shardwise/shard/hash.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace shardwise {
namespace {

// Section 2.1 of the paper: initial values, flags, the message permutation.
constexpr std::array<std::uint32_t, 8> kInitial = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                                                   0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
constexpr std::uint32_t kChunkStart = 1, kChunkEnd = 2, kParent = 4, kRoot = 8;
constexpr int kPermutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
constexpr int kRounds = 7;

// Which message word each round reads at each place: the permutation applied again and again.
constexpr auto kSchedule = [] {
  std::array<std::array<int, 16>, kRounds> schedule{};
  for (int i = 0; i < 16; ++i) schedule[0][i] = i;
  for (int round = 1; round < kRounds; ++round) {
    for (int i = 0; i < 16; ++i) schedule[round][i] = schedule[round - 1][kPermutation[i]];
  }
  return schedule;
}();

// Eight words of eight chunks, one chunk a lane. Operators work lane by lane (GCC and Clang vectors).
constexpr int kLanes = 8;
using Lanes = std::uint32_t __attribute__((vector_size(4 * kLanes)));

template <class Word>
inline __attribute__((always_inline)) void rotate_right(Word& word, int bits) {
  word = (word >> bits) | (word << (32 - bits));
}

template <class Word>
inline __attribute__((always_inline)) void mix(Word& a, Word& b, Word& c, Word& d, const Word& x,
                                               const Word& y) {
  a = a + b + x;
  d ^= a;
  rotate_right(d, 16);
  c = c + d;
  b ^= c;
  rotate_right(b, 12);
  a = a + b + y;
  d ^= a;
  rotate_right(d, 8);
  c = c + d;
  b ^= c;
  rotate_right(b, 7);
}

template <class Word, int Round>
inline __attribute__((always_inline)) void one_round(Word (&v)[16], const Word (&m)[16]) {
  constexpr auto& s = kSchedule[Round];
  mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
  mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
  mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
  mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
  mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
  mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
  mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
  mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
}

// The compression function, truncated to the eight words that are a chaining value; the same text for one
// chunk (Word = uint32_t) and for eight.
template <class Word>
inline __attribute__((always_inline)) void compress(Word (&value)[8], const Word (&message)[16],
                                                    const Word& counter_low, const Word& counter_high,
                                                    std::uint32_t bytes, std::uint32_t flags) {
  const Word zero{};
  Word v[16] = {value[0],           value[1],           value[2],           value[3],
                value[4],           value[5],           value[6],           value[7],
                zero + kInitial[0], zero + kInitial[1], zero + kInitial[2], zero + kInitial[3],
                counter_low,        counter_high,       zero + bytes,       zero + flags};
  one_round<Word, 0>(v, message);
  one_round<Word, 1>(v, message);
  one_round<Word, 2>(v, message);
  one_round<Word, 3>(v, message);
  one_round<Word, 4>(v, message);
  one_round<Word, 5>(v, message);
  one_round<Word, 6>(v, message);
  for (int i = 0; i < 8; ++i) value[i] = v[i] ^ v[i + 8];
}

using Words = std::array<std::uint32_t, 8>;

std::uint32_t load_little(const std::uint8_t* bytes) {
  std::uint32_t word;
  std::memcpy(&word, bytes, 4);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap32(word);
  return word;
}

Words compress_block(const Words& value, const std::uint8_t* block, std::uint64_t counter, std::size_t bytes,
                     std::uint32_t flags) {
  std::uint32_t state[8], message[16];
  std::copy(value.begin(), value.end(), state);
  for (int i = 0; i < 16; ++i) message[i] = load_little(block + 4 * i);
  compress(state, message, static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
           static_cast<std::uint32_t>(bytes), flags);
  Words result;
  std::copy(state, state + 8, result.begin());
  return result;
}

Words compress_parent(const Words& left, const Words& right, std::uint32_t flags) {
  std::uint32_t state[8], message[16];
  std::copy(kInitial.begin(), kInitial.end(), state);
  std::copy(left.begin(), left.end(), message);
  std::copy(right.begin(), right.end(), message + 8);
  compress(state, message, 0u, 0u, 64, kParent | flags);
  Words result;
  std::copy(state, state + 8, result.begin());
  return result;
}

// 8 x 8 words: word `w` of chunk `c` becomes lane c of rows[w]. Three steps of exchanging halves, quarters,
// eighths.
inline __attribute__((always_inline)) void transpose(Lanes (&rows)[8]) {
  Lanes a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    a[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = i; j < i + 2; ++j) {
      b[j] = __builtin_shufflevector(a[j], a[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      b[j + 2] = __builtin_shufflevector(a[j], a[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    rows[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// Chaining values of eight whole chunks in a row, the first of index `counter`.
void hash_eight_chunks(const std::uint8_t* data, std::uint64_t counter, Words (&values)[kLanes]) {
  constexpr std::size_t chunk_bytes = 1024, block_bytes = 64;
  Lanes state[8], counter_low, counter_high;
  for (int i = 0; i < 8; ++i) state[i] = Lanes{} + kInitial[static_cast<std::size_t>(i)];
  for (int lane = 0; lane < kLanes; ++lane) {
    counter_low[lane] = static_cast<std::uint32_t>(counter + static_cast<std::uint64_t>(lane));
    counter_high[lane] = static_cast<std::uint32_t>((counter + static_cast<std::uint64_t>(lane)) >> 32);
  }
  for (std::size_t block = 0; block < chunk_bytes / block_bytes; ++block) {
    Lanes message[16];
    for (int half = 0; half < 2; ++half) {
      Lanes rows[8];
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const std::uint8_t* from =
            data + lane * chunk_bytes + block * block_bytes + 32 * static_cast<std::size_t>(half);
        std::memcpy(&rows[lane], from, 32);
        if constexpr (std::endian::native == std::endian::big) {
          for (int w = 0; w < 8; ++w) rows[lane][w] = __builtin_bswap32(rows[lane][w]);
        }
      }
      transpose(rows);
      for (int w = 0; w < 8; ++w) message[8 * half + w] = rows[w];
    }
    const std::uint32_t flags = (block == 0 ? kChunkStart : 0) | (block == 15 ? kChunkEnd : 0);
    compress(state, message, counter_low, counter_high, block_bytes, flags);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (std::size_t i = 0; i < 8; ++i) values[lane][i] = state[i][lane];
  }
}

}  // namespace

Blake3::Blake3() : chunk_value_(kInitial) {}

// A new subtree of one chunk: the trailing zeros of the chunk count say how many subtrees it completes.
void Blake3::push(Words chaining_value) {
  ++chunks_;
  for (std::uint64_t count = chunks_; (count & 1) == 0; count >>= 1) {
    chaining_value = compress_parent(stack_[--depth_], chaining_value, 0);
  }
  stack_[depth_++] = chaining_value;
}

void Blake3::finish_chunk() {
  const std::uint32_t flags = kChunkEnd | (blocks_ == 0 ? kChunkStart : 0);
  const Words value = compress_block(chunk_value_, block_.data(), chunks_, filled_, flags);
  chunk_value_ = kInitial;
  block_.fill(0);
  blocks_ = filled_ = 0;
  push(value);
}

// Bytes of one chunk, never past its end.
void Blake3::absorb(const std::uint8_t* data, std::size_t bytes) {
  while (bytes > 0) {
    if (filled_ == kBlockBytes) {
      chunk_value_ =
          compress_block(chunk_value_, block_.data(), chunks_, kBlockBytes, blocks_ == 0 ? kChunkStart : 0);
      block_.fill(0);
      ++blocks_;
      filled_ = 0;
    }
    const std::size_t taken = std::min(bytes, kBlockBytes - filled_);
    std::memcpy(block_.data() + filled_, data, taken);
    filled_ += taken;
    data += taken;
    bytes -= taken;
  }
}

Blake3& Blake3::update(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  while (bytes > 0) {
    // A chunk is finished only when a further byte arrives: the last one of all may be the root.
    if (blocks_ * kBlockBytes + filled_ == kChunkBytes) finish_chunk();
    const std::size_t in_chunk = blocks_ * kBlockBytes + filled_;
    if (in_chunk == 0 && bytes > kLanes * kChunkBytes) {
      Words values[kLanes];
      hash_eight_chunks(from, chunks_, values);
      for (const Words& value : values) push(value);
      from += kLanes * kChunkBytes;
      bytes -= kLanes * kChunkBytes;
      continue;
    }
    const std::size_t taken = std::min(bytes, kChunkBytes - in_chunk);
    absorb(from, taken);
    from += taken;
    bytes -= taken;
  }
  return *this;
}

Blake3::Digest Blake3::digest() const {
  const std::uint32_t flags = kChunkEnd | (blocks_ == 0 ? kChunkStart : 0);
  const std::uint32_t root = depth_ == 0 ? kRoot : 0;
  Words value = compress_block(chunk_value_, block_.data(), chunks_, filled_, flags | root);
  for (std::size_t left = depth_; left-- > 0;) {
    value = compress_parent(stack_[left], value, left == 0 ? kRoot : 0);
  }
  Digest result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = static_cast<std::uint8_t>(value[i / 4] >> (8 * (i % 4)));
  }
  return result;
}

std::string Blake3::hex() const {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest()) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string blake3_hex(const void* data, std::size_t bytes) {
  return Blake3().update(data, bytes).hex();
}

}  // namespace shardwise
