#pragma once
// Parts of a reduction: each item sums every `parts`-th value by itself and adds once, so that items do not
// queue for one cell.

#include "shardwise/numeric/exact_sum.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

struct SumPartial {
  ExactCell cell;
  std::int64_t overflow;
  std::int64_t unused[3];
};

struct SumColumnParts {
  const float* values = nullptr;
  std::int64_t count = 0, parts = 1;
  float scale = 1;
  SumPartial* partial = nullptr;

  SW_HD void operator()(std::int64_t part) const {
    ExactCell local{};
    std::int64_t overflow = 0;
    for (std::int64_t i = part; i < count; i += parts) {
      const float value = values[i];
      if (!is_finite(value)) continue;
      ++local.count;
      if (!add_exact(local.digit, value * scale)) ++overflow;
    }
    if (local.count == 0) return;
    // Normalised, so that the cell's words hold 2^31 of these.
    normalize(local);
    for (int k = 0; k < 3; ++k) atomic_add(&partial->cell.digit[k], local.digit[k]);
    atomic_add(&partial->cell.count, local.count);
    if (overflow) atomic_add(&partial->overflow, overflow);
  }
};

struct MergeSums {
  SumPartial* into = nullptr;
  const SumPartial* from = nullptr;
  SW_HD void operator()(std::int64_t) const {
    normalize(into->cell);
    ExactCell other = from->cell;
    normalize(other);
    merge(into->cell, other);
    into->overflow += from->overflow;
  }
};

}  // namespace shardwise
