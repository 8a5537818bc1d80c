#pragma once
// What the map's cells and the transmitters see, by plain rays on the host: for the report and its warnings.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shardwise/radio/coverage.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise::program {

struct CellCensus {
  std::int64_t open = 0;              ///< cells with nothing above their centre
  std::int64_t line_of_sight = 0;     ///< cells whose centre sees a transmitter
  std::vector<std::uint8_t> is_open;  ///< [cells]
};

class CellCounter {
 public:
  /// Builds a tree of its own over the scene's world triangles.
  explicit CellCounter(const SceneModel& model);
  ~CellCounter();

  /// One ray up and at most one to each transmitter per cell, on all cores. Throws Error{interrupted} on
  /// `cancel`.
  CellCensus count(const CoverageGrid& grid, const std::vector<Transmitter>& transmitters,
                   const std::atomic<bool>& cancel) const;

  /// Warnings for transmitters with a surface within 2 m above or below.
  std::vector<std::string> close_surfaces(const std::vector<Transmitter>& transmitters) const;

 private:
  struct Tree;
  const SceneModel& model_;
  std::unique_ptr<Tree> tree_;
};

}  // namespace shardwise::program
