#pragma once
// Fields with contents beyond their cells.

#include "grid/grid_cases.hpp"

namespace shardwise::grid_test {

/// Random contents of all cells of the blocks that are here, ghosts and corners too.
inline Field<double> random_padded(const Blocks& blocks, std::uint32_t what) {
  Field<double> field(blocks, "padded", GhostLayout::padded);
  for (const int part : blocks.local_parts()) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < field.layout(part).size; ++i)
      values.push_back(
          random_value(static_cast<std::uint64_t>(i), what + 1000 * static_cast<std::uint32_t>(part)));
    field.set_memory(part, values);
  }
  return field;
}

}  // namespace shardwise::grid_test
