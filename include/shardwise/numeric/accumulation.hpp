#pragma once

namespace shardwise {

/// How a sum over lanes or cells is kept. docs/determinism.md says what each promises, and why.
enum class Accumulation {
  fast,     ///< float64 atomics: counters exact, sums to summation order, about 1e-9
  ordered,  ///< the same bits again for the same devices, weights and chunking
  exact,    ///< the same bits for every split, chunking, device count and order
};

}  // namespace shardwise
