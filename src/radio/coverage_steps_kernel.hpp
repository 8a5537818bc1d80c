#pragma once
// What happens to a map between and after the lanes: normalise, merge partials, finish. One body per step.

#include <cmath>
#include <cstdint>

#include "radio/coverage_sinks.hpp"
#include "shardwise/numeric/exact_sum.hpp"
#include "shardwise/numeric/host_device.hpp"

namespace shardwise {

/// Brings every word of a device's grids to canonical form. Item: a (pass, cell) slot.
struct NormalizeCells {
  ExactCell* cells;
  ExactSum* fields;  ///< [slots][6] or null
  SW_HD void operator()(std::int64_t slot) const {
    normalize(cells[slot]);
    if (fields)
      for (int k = 0; k < 6; ++k) normalize(fields[slot * 6 + k]);
  }
};

/// Adds one device's partial to the master's grids. Item: a cell of one pass.
struct MergeExact {
  ExactCell* cells;
  const ExactCell* partial;
  ExactSum* fields;
  const ExactSum* partial_fields;
  SW_HD void operator()(std::int64_t cell) const {
    merge(cells[cell], partial[cell]);
    if (fields)
      for (int k = 0; k < 6; ++k) merge(fields[cell * 6 + k], partial_fields[cell * 6 + k]);
  }
};

struct MergeFast {
  FastCell* cells;
  const FastCell* partial;
  double* fields;
  const double* partial_fields;
  SW_HD void operator()(std::int64_t cell) const {
    cells[cell].sum += partial[cell].sum;
    cells[cell].count += partial[cell].count;
    if (fields)
      for (int k = 0; k < 6; ++k) fields[cell * 6 + k] += partial_fields[cell * 6 + k];
  }
};

/// Where the finished map goes, and the constants it is multiplied with once.
struct FinishTarget {
  double* gain;             ///< [cells]
  double* standard_error;   ///< [cells] or null
  std::int64_t* crossings;  ///< [cells]
  double* field;            ///< [cells][6] or null
  std::int64_t cell_count;
  int passes;
  double factor;       ///< of the sum over all passes
  double pass_factor;  ///< of one pass: factor x passes
  double field_factor;
};

namespace detail {

/// Standard error of the mean of the passes' estimates, squared deviations added in pass order.
template <class PassValue>
SW_HD inline double standard_error(const FinishTarget& target, double mean, PassValue pass_value) {
  double squares = 0;
  for (int pass = 0; pass < target.passes; ++pass) {
    const double deviation = pass_value(pass) * target.pass_factor - mean;
    squares += deviation * deviation;
  }
  const double passes = target.passes;
  return std::sqrt(squares / (passes * (passes - 1)));
}

}  // namespace detail

/// Item: a cell. Digits of all passes are summed exactly and rounded once.
struct FinishExact {
  FinishTarget target;
  const ExactCell* cells;
  const ExactSum* fields;
  SW_HD void operator()(std::int64_t cell) const {
    ExactCell total{};
    for (int pass = 0; pass < target.passes; ++pass) merge(total, cells[pass * target.cell_count + cell]);
    const double gain = to_double(total) * target.factor;
    target.gain[cell] = gain;
    target.crossings[cell] = total.count;
    if (target.standard_error)
      target.standard_error[cell] = detail::standard_error(
          target, gain, [&](int pass) { return to_double(cells[pass * target.cell_count + cell]); });
    if (target.field)
      for (int k = 0; k < 6; ++k) {
        ExactSum sum{};
        for (int pass = 0; pass < target.passes; ++pass)
          merge(sum, fields[(pass * target.cell_count + cell) * 6 + k]);
        target.field[cell * 6 + k] = to_double(sum) * target.field_factor;
      }
  }
};

struct FinishFast {
  FinishTarget target;
  const FastCell* cells;
  const double* fields;
  SW_HD void operator()(std::int64_t cell) const {
    double sum = 0;
    std::int64_t count = 0;
    for (int pass = 0; pass < target.passes; ++pass) {
      sum += cells[pass * target.cell_count + cell].sum;
      count += cells[pass * target.cell_count + cell].count;
    }
    const double gain = sum * target.factor;
    target.gain[cell] = gain;
    target.crossings[cell] = count;
    if (target.standard_error)
      target.standard_error[cell] = detail::standard_error(
          target, gain, [&](int pass) { return cells[pass * target.cell_count + cell].sum; });
    if (target.field)
      for (int k = 0; k < 6; ++k) {
        double part = 0;
        for (int pass = 0; pass < target.passes; ++pass)
          part += fields[(pass * target.cell_count + cell) * 6 + k];
        target.field[cell * 6 + k] = part * target.field_factor;
      }
  }
};

}  // namespace shardwise
