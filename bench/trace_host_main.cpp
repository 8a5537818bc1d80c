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
    run_trace_host(mesh_named(name), 400000, 9, stdout);
  }
  return 0;
} catch (const shardwise::Error& error) {
  std::fprintf(stderr, "bench_trace_host: %s\n", error.what());
  return shardwise::exit_code(error.error_class());
}
