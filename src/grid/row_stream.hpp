#pragma once
// What the host's loops over rows tell the memory system.
//
// An ordinary store of a line that is not in the cache reads it first, so that y <- L x moves three fields
// where two would do. Results too large to be found in a cache later are therefore made line by line
// and streamed past the cache. The values are the same.

#include <cstdint>
#include <cstring>

#if defined(__AVX__) && !defined(__CUDACC__)
#include <immintrin.h>
#define SHARDWISE_STREAMS_ROWS 1
#else
#define SHARDWISE_STREAMS_ROWS 0
#endif

namespace shardwise {

/// Results of at least this many bytes are streamed; what is smaller may still be cached when it is read.
constexpr std::int64_t stream_from_bytes = std::int64_t{32} << 20;

/// Elements of a cache line.
template <class T>
constexpr std::int64_t line_cells = 64 / static_cast<std::int64_t>(sizeof(T));

template <class T>
inline bool begins_line(const T* at) {
  return reinterpret_cast<std::uintptr_t>(at) % 64 == 0;
}

/// One whole line past the cache. Order towards other threads: finish_rows().
template <class T>
inline void stream_line(T* to, const T* from) {
#if SHARDWISE_STREAMS_ROWS
  constexpr std::int64_t half = line_cells<T> / 2;
  for (std::int64_t i = 0; i < 2 * half; i += half)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
#else
  std::memcpy(to, from, 64);
#endif
}

/// What was streamed is in order with all that this thread does next.
inline void finish_rows() {
#if SHARDWISE_STREAMS_ROWS
  _mm_sfence();
#endif
}

/// Asks for a line that will be read soon: hardware does not foresee a jump to another page.
template <class T>
inline void prefetch_line(const T* at) {
#if SHARDWISE_STREAMS_ROWS
  _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
#else
  (void)at;
#endif
}

}  // namespace shardwise
