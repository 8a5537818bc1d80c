// The runtime without a radio operation: numbers are made on one device, copied to another and added up
// there. Then two mistakes. An event edge that is left out is found by sim's race check. An access that is
// not declared cannot be seen by any check of declarations; sim's random order turns it into wrong numbers.

#include <cstdint>
#include <cstdio>
#include <string>

#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/sim.hpp"

namespace {

using namespace shardwise;
using Number = std::int64_t;

constexpr std::int64_t count = 1000;
constexpr Number sum_of_squares = (count - 1) * count * (2 * count - 1) / 6;

struct Mistake {
  int dropped_edge = -1;           ///< of the executor's edges
  bool read_not_declared = false;  ///< of the adding launch
};

/// Runs the graph once; the sum that came back.
Number run_graph(Executor& executor, Mistake mistake) {
  Stream& first = *executor.default_context().streams[0];
  Stream& second = *executor.default_context().streams[1];
  const Buffer<Number> made(first, count, "made"), received(second, count, "received"), sum(second, 1, "sum");
  Number result = -1;
  second.enqueue(zero_operation("clear", received.data(), received.bytes(), {received.writes()}));

  Graph graph;
  Operation make;
  make.name = "make";
  make.accesses = {made.writes()};
  make.body = [out = made.data()](LaunchContext& context) {
    context.parallel_for(count, 100, [out](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = i * i;
    });
  };
  graph.add(0, StreamRole::compute, make);

  graph.add(1, StreamRole::copy_in, copy_operation("send", received, made));

  Operation add;
  add.name = "add";
  add.accesses = {sum.writes()};
  if (!mistake.read_not_declared) add.accesses.add(received.reads());
  add.body = [in = received.data(), out = sum.data()](LaunchContext&) {
    *out = 0;
    for (std::int64_t i = 0; i < count; ++i) *out += in[i];
  };
  graph.add(1, StreamRole::compute, add);

  graph.add(1, StreamRole::copy_out,
            copy_operation("fetch", &result, sum.data(), sum.bytes(), {sum.reads()}));

  executor.drop_edge(mistake.dropped_edge);
  Run run = executor.run(std::move(graph));
  run.wait();
  return result;
}

int run() {
  {
    Executor executor(open_devices("host:2x1"));
    const Number sum = run_graph(executor, {});
    std::printf("host: the sum is %ld\n", static_cast<long>(sum));
    if (sum != sum_of_squares) return 1;
  }

  const DeviceSet devices = open_devices("sim:2");
  Executor executor(devices);
  run_graph(executor, {});
  std::printf("sim: %zu races\n", devices.sim_world()->races().size());
  if (!devices.sim_world()->races().empty()) return 1;

  int edge = 0;
  for (const ExecutorEdge& made : executor.edges()) {
    std::printf("  edge %d: %s\n", edge, made.text().c_str());
    if (made.text().starts_with("make on")) break;
    ++edge;
  }
  run_graph(executor, {.dropped_edge = edge});
  const auto races = devices.sim_world()->races();
  std::printf("without edge %d: %zu race\n", edge, races.size());
  if (races.empty()) return 1;
  std::printf("  %s\n", races.front().text.c_str());

  int wrong = 0;
  devices.sim_world()->clear_races();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    devices.sim_world()->reseed(seed);
    if (run_graph(executor, {.read_not_declared = true}) != sum_of_squares) ++wrong;
  }
  std::printf("with a read that is not declared: %zu races, %d of 20 orders give a wrong sum\n",
              devices.sim_world()->races().size(), wrong);
  return wrong > 0 ? 0 : 1;
}

}  // namespace

int main() try { return run(); } catch (const Error& error) {
  std::fprintf(stderr, "graph: %s\n", error.what());
  return exit_code(error.error_class());
}
