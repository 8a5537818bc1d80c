// The benchmarks that `shardwise bench` offers. A new one is a function here and a line in the list.

#include "runner.hpp"

namespace shardwise::bench {

const std::vector<Benchmark>& benchmarks() {
  static const std::vector<Benchmark> list{};
  return list;
}

}  // namespace shardwise::bench
