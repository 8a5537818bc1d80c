#pragma once
// Written by placement_table.py, which hashes by a BLAKE3 of its own.

#include <array>

namespace shardwise::test {

struct PlacementRow {
  const char* key;
  std::array<unsigned, 15> device;  ///< on 2 to 16 devices
};

inline constexpr PlacementRow kPlacements[] = {
    {"src/foo.rs", {1, 0, 1, 3, 3, 0, 1, 0, 3, 0, 9, 11, 7, 3, 1}},
    {"cold/file.bin", {0, 0, 0, 0, 0, 3, 4, 6, 0, 4, 0, 2, 10, 0, 12}},
    {"a", {1, 1, 3, 4, 1, 5, 7, 1, 9, 2, 7, 4, 5, 4, 7}},
    {"", {1, 2, 3, 2, 5, 1, 7, 2, 7, 10, 11, 9, 1, 2, 15}},
};

}  // namespace shardwise::test
