#pragma once
// One picture of many maps, on one scale of colours.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardwise::program {

struct OverviewPanel {
  std::string title;
  std::int64_t columns = 0, rows = 0;
  std::span<const double> gain;  ///< linear, [rows, columns], row 0 at the bottom; 0: not reached
};

/// The bytes of the PNG: panels in reading order, `title` above, one colour bar in dB. Throws Error{usage} in
/// a build without pictures, Error{io} where cairo fails.
std::string overview_png(const std::string& title, const std::vector<OverviewPanel>& panels);

}  // namespace shardwise::program
