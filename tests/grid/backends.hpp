#pragma once
// The backends that tests of distributed operators run on. Two programs are made of the same tests:
// grid_tests, all of whose parts are in one process (local_backends.cpp), and grid_mpi_tests, with one part a
// rank (rank_backends.cpp).
//
// What means nothing across ranks, and is in grid_tests alone: the schedules of sim, whose virtual time and
// order of operations are those of one process (a race between two ranks is one inside either of them, since
// messages are the only way from one to the other: every rank's own sim:1 is checked); links between devices
// of one process; processor time of one thread; and what knows of no parts (grids, kernels, rows, totals of
// sums).

#include <concepts>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grid/grid_cases.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::grid_test {

/// Any backend, by value.
class AnyBackend {
 public:
  template <DistributedBackend B>
  requires(!std::same_as<B, AnyBackend>) explicit AnyBackend(const B& backend, std::string text)
      : text_(std::move(text)),
        request_([backend] { return backend.request(); }),
        connect_([backend](const Partition& partition) { return backend.connect(partition); }) {}
  PartitionRequest request() const { return request_(); }
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const { return connect_(partition); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::function<PartitionRequest()> request_;
  std::function<std::unique_ptr<BlockTransport>(const Partition&)> connect_;
};
static_assert(DistributedBackend<AnyBackend>);

/// In one process: these. On ranks: what has one part is left as it is, the reference on every rank by
/// itself; the others become slabs and blocks of as many parts as there are ranks, by both routes, as far as
/// the grid is large enough for them.
std::vector<AnyBackend> cuts(const CartesianGrid& grid, const std::vector<Serial>& wanted);
/// One cut: this one, or that of the ranks which is most like it.
AnyBackend cut(const CartesianGrid& grid, const Serial& wanted);
/// The same on the devices of a spec ("host:2x1", "sim:3"): in one process LocalDevices; on ranks every one
/// has one device of that kind.
std::vector<AnyBackend> cuts_on(const std::string& spec, const CartesianGrid& grid,
                                const std::vector<Serial>& wanted);

/// The same on devices of the caller's: with ranks, the one of this rank.
AnyBackend cut_on(const DeviceSet& devices, const CartesianGrid& grid, const Serial& wanted);
/// The same parts in this process.
inline Serial serial_of(const AnyBackend& backend) {
  const PartitionRequest r = backend.request();
  return {r.parts, r.process_grid, r.blocks};
}

/// Whether this is grid_mpi_tests, on whatever number of ranks.
bool on_ranks();
/// 1 and 0 in one process.
int processes();
int process();
/// Sum over the processes; collective.
double sum_of_processes(double value);
std::int64_t sum_of_processes(std::int64_t value);
/// As many rounds as there is time for: with ranks every exchange is a meeting of all.
inline bool thorough() {
  return !on_ranks() || std::getenv("SHARDWISE_LONG") != nullptr;
}

/// How a call fails that has to.
struct Failure {
  ErrorClass error_class = ErrorClass::internal;
  std::string text;
  bool consequence = false;  ///< a DependencyError
  double seconds = 0;
};
/// Runs it; on ranks all have to fail with the same error.
Failure failure_of(const std::function<void()>& call);

}  // namespace shardwise::grid_test
