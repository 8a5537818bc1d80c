#include <cstdio>
#include <cstring>
#include <string>

#include "shardwise/runtime/error.hpp"
#include "trace_host.hpp"

// bench_trace_host [FILE.ply | cloud | city] ...: one table each; cloud and city without arguments.
int main(int argc, char** argv) try {
  using namespace shardwise::bench;
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"cloud", "city"};
  for (const std::string& name : names) {
    const TraceMesh mesh = name == "cloud"  ? triangle_cloud(1 << 17)
                           : name == "city" ? box_city(60)
                                            : read_simple_ply(name);
    run_trace_host(mesh, 400000, 9, stdout);
  }
  return 0;
} catch (const shardwise::Error& error) {
  std::fprintf(stderr, "bench_trace_host: %s\n", error.what());
  return shardwise::exit_code(error.error_class());
}
