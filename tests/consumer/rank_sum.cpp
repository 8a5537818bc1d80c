// A user's program on ranks: mpirun -n 4 ./rank_sum; by itself it is one rank.

#include <cstdint>
#include <cstdio>
#include <span>

#include "shardwise/cluster/mpi.hpp"

int main() {
  using namespace shardwise;
  const auto ranks = mpi_world();
  std::int64_t sum = ranks->rank() + 1;
  ranks->sum(std::span(&sum, 1), "sum");
  if (ranks->rank() == 0)
    std::printf("%d ranks (%s): %ld\n", ranks->size(), ranks->name().c_str(), long(sum));
  return sum == ranks->size() * (ranks->size() + 1) / 2 ? 0 : 1;
}
