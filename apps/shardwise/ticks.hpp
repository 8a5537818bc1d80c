#pragma once

#include <string>
#include <vector>

namespace shardwise::program {

struct Ticks {
  double step = 1;
  std::vector<double> values;
  /// A value in as few digits as the step needs; -0 is 0.
  std::string label(double value) const;
};

/// Round values (1, 2 or 5 times a power of ten) inside [low, high], at most `most` of them.
Ticks round_ticks(double low, double high, int most);

}  // namespace shardwise::program
