#pragma once
// Where a lane's contributions go. A sink addresses cell `(pass - first_pass) x cell_count + cell` of its
// grids: a device holds the grids of the passes that its window touches.
//
// Every sink offers
//     static constexpr bool wants_fields;            the lane computes the complex field, too
//     void begin(lane);                              once per lane, inactive ones included
//     void prefetch(pass, cell);                     host: the cell may be added to soon
//     bool add(lane, pass, depth, cell, u, field);   false: an overflow, and the cell is unchanged or damaged

#include <cstdint>

#include "shardwise/numeric/atomic_add.hpp"
#include "shardwise/numeric/exact_sum.hpp"
#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// Six parts of a complex vector: x re, x im, y re, y im, z re, z im.
struct FieldSample {
  float part[6];
};

struct PassWindow {
  std::uint64_t cell_count = 0;
  std::uint32_t first_pass = 0;
  SW_HD std::uint64_t slot(std::uint32_t pass, std::int64_t cell) const {
    return static_cast<std::uint64_t>(pass - first_pass) * cell_count + static_cast<std::uint64_t>(cell);
  }
};

struct FastCell {
  double sum;
  std::int64_t count;
};

/// Accumulation::fast: float64 atomics.
template <bool Fields = false>
struct FastSink {
  static constexpr bool wants_fields = Fields;
  PassWindow window;
  FastCell* cells = nullptr;
  double* fields = nullptr;  ///< [cells][6]

  SW_HD void begin(std::uint64_t) {}
  void prefetch(std::uint32_t pass, std::int64_t cell) const {
    __builtin_prefetch(cells + window.slot(pass, cell), 1);
  }
  SW_HD bool add(std::uint64_t, std::uint32_t pass, int, std::int64_t cell, float u,
                 const FieldSample& field) {
    if (!is_finite(u)) return false;
    const std::uint64_t slot = window.slot(pass, cell);
    if constexpr (Fields) {
      for (const float part : field.part)
        if (!is_finite(part)) return false;
      for (int k = 0; k < 6; ++k) atomic_add(fields + slot * 6 + k, static_cast<double>(field.part[k]));
    }
    atomic_add(&cells[slot].sum, static_cast<double>(u));
    atomic_add(&cells[slot].count, std::int64_t{1});
    return true;
  }
};

/// Accumulation::exact: digits (exact_sum.hpp). `scale` and `field_scale` are powers of two.
/// `Exclusive`: one thread alone adds to these cells, so plain additions do.
template <bool Fields = false, bool Exclusive = false>
struct ExactSink {
  static constexpr bool wants_fields = Fields;
  PassWindow window;
  ExactCell* cells = nullptr;
  ExactSum* fields = nullptr;  ///< [cells][6]
  float scale = 1, field_scale = 1;

  SW_HD void begin(std::uint64_t) {}
  void prefetch(std::uint32_t pass, std::int64_t cell) const {
    __builtin_prefetch(cells + window.slot(pass, cell), 1);
  }
  SW_HD bool add(std::uint64_t, std::uint32_t pass, int, std::int64_t cell, float u,
                 const FieldSample& field) {
    const std::uint64_t slot = window.slot(pass, cell);
    bool good = add(cells[slot].digit, u * scale);
    if constexpr (Fields)
      for (int k = 0; k < 6; ++k) good = add(fields[slot * 6 + k].digit, field.part[k] * field_scale) && good;
    if (!good) return false;
    if constexpr (Exclusive)
      ++cells[slot].count;
    else
      atomic_add(&cells[slot].count, std::int64_t{1});
    return true;
  }

 private:
  SW_HD static bool add(std::int64_t* digits, float value) {
    if constexpr (Exclusive) return add_exact(digits, value);
    return atomic_add_exact(digits, value);
  }
};

struct StagedSlot {
  std::int64_t cell;  ///< as addressed above; -1: nothing
  float u;
  std::uint32_t unused;
};

/// Accumulation::ordered: every (lane, depth) owns a slot; a later step adds them in lane order.
template <bool Fields = false>
struct StagedSink {
  static constexpr bool wants_fields = Fields;
  PassWindow window;
  std::uint64_t first_lane = 0;
  int slots_per_lane = 1;  ///< bounces + 1
  StagedSlot* slots = nullptr;
  FieldSample* fields = nullptr;  ///< per slot

  SW_HD void begin(std::uint64_t lane) {
    StagedSlot* mine = slots + (lane - first_lane) * static_cast<std::uint64_t>(slots_per_lane);
    for (int k = 0; k < slots_per_lane; ++k) mine[k] = {-1, 0.0f, 0};
  }
  void prefetch(std::uint32_t, std::int64_t) const {}
  SW_HD bool add(std::uint64_t lane, std::uint32_t pass, int depth, std::int64_t cell, float u,
                 const FieldSample& field) {
    bool good = is_finite(u);
    if constexpr (Fields)
      for (const float part : field.part) good = good && is_finite(part);
    if (!good) return false;
    const std::uint64_t index =
        (lane - first_lane) * static_cast<std::uint64_t>(slots_per_lane) + static_cast<std::uint64_t>(depth);
    slots[index] = {static_cast<std::int64_t>(window.slot(pass, cell)), u, 0};
    if constexpr (Fields) fields[index] = field;
    return true;
  }
};

}  // namespace shardwise
