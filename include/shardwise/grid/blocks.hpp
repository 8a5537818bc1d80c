#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardwise/grid/backend.hpp"

namespace shardwise {

struct BlocksState;

/// Where ghost cells lie. Results do not depend on it.
enum class GhostLayout {
  planes,   ///< owned planes contiguous, ghosts only beside cuts; wall ghosts exist in registers only
  padded,   ///< all ghost layers in all dimensions
  pitched,  ///< padded, with rows that begin at multiples of 128 bytes
};
const char* to_string(GhostLayout layout) noexcept;

/// A grid cut into blocks that live on a backend: what fields and prepared operators are made on. Copies
/// share the blocks. Calls come from one thread.
///
///     Blocks blocks(grid, Serial{3});
///     Blocks blocks(grid, LocalDevices{open_devices("cuda")});
class Blocks {
 public:
  template <DistributedBackend B>
  Blocks(const CartesianGrid& grid, const B& backend, GhostLayout layout = GhostLayout::planes)
      : Blocks(Partition(grid, backend.request()), layout,
               [&](const Partition& p) { return backend.connect(p); }) {}
  /// Of the library's own use: blocks that are there already.
  explicit Blocks(std::shared_ptr<BlocksState> state) : state_(std::move(state)) {}

  const CartesianGrid& grid() const;
  const Partition& partition() const;
  GhostLayout layout() const;
  /// The parts of this process and their grids.
  const std::vector<int>& local_parts() const;
  const CartesianGrid& local_grid(int part) const { return partition().block(part); }
  /// What carries the messages, for reports.
  std::string transport() const;
  /// The scheduler of simulated devices, null elsewhere.
  SimWorld* sim_world() const;
  /// Waits for all that was enqueued; throws the first error.
  void synchronize() const;

  BlocksState& state() const { return *state_; }
  const std::shared_ptr<BlocksState>& shared_state() const { return state_; }

 private:
  using Connect = std::function<std::unique_ptr<BlockTransport>(const Partition&)>;
  Blocks(Partition partition, GhostLayout layout, const Connect& connect);
  std::shared_ptr<BlocksState> state_;
};

}  // namespace shardwise
