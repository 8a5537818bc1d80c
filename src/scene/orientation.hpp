#pragma once
// Connected components of faces, and which of them enclose a volume.

#include <cstdint>
#include <vector>

#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

struct Orientation {
  std::vector<std::uint8_t> flipped;  ///< [F] 1: outward is against the winding; 0 on open components
  std::int64_t closed_components = 0;
  std::int64_t oriented_components = 0;  ///< closed ones with a flipped face
};

/// Components grow over edges of exactly two faces. One is closed where each edge has an even number of its
/// faces, its windings can be made to agree, and its volume is not 0.
Orientation orient_closed_components(const EdgeTable& table, const SceneGeometry& geometry);

}  // namespace shardwise
