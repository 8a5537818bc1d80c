#include <cstdio>
#include <cstring>
#include <string>

#include "shardwise/runtime/error.hpp"
#include "trace_host.hpp"

// bench_trace_host [FILE.ply | cloud | city] ...: one table of speeds each; cloud and city without arguments.
// bench_trace_host --compare NAME ...: the hits of 10 million rays instead, Embree ranked against the BVH.
int main(int argc, char** argv) try {
  using namespace shardwise::bench;
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"cloud", "city"};
  const bool compare = names.front() == "--compare";
  if (compare) names.erase(names.begin());
  for (const std::string& name : names) {
    if (compare)
      compare_tracers(mesh_named(name), 10'000'000, stdout);
    else
      run_trace_host(mesh_named(name), 400'000, 9, stdout);
  }
  return 0;
} catch (const shardwise::Error& error) {
  std::fprintf(stderr, "bench_trace_host: %s\n", error.what());
  return shardwise::exit_code(error.error_class());
}
