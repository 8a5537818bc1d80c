#pragma once
// Blocks of several processes: one part a rank.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "grid/inline_device.hpp"
#include "shardwise/cluster/device_collectives.hpp"
#include "shardwise/grid/backend.hpp"

namespace shardwise {

/// Messages between ranks. With NCCL they are operations on the transfer stream. With the other routes move()
/// waits: what is sent must have been made, what is received must not be in use any more, and MPI knows of no
/// streams. Receives are posted before sends, so that no order of ranks can block.
class RanksTransport final : public BlockTransport {
 public:
  RanksTransport(const Partition& partition, const Mpi& backend);

  std::string name() const override;
  std::vector<int> local_parts() const override { return {ranks_->rank()}; }
  Stream& compute(int) override { return *compute_; }
  Stream& transfer(int) override { return transfer_ ? *transfer_ : *compute_; }
  void move(const std::vector<Message>& messages, OrderedQueue& queue) override;
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override;
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override;
  bool agree(bool yes) override { return ranks_->agree(yes, "grid agreement"); }
  std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> bytes, int root) override;
  int processes() const override { return ranks_->size(); }
  bool move_waits() const override;
  void check_link() override {
    if (nccl_) nccl_->check();
  }
  SimWorld* sim_world() const override { return devices_.sim_world(); }

 private:
  /// Pinned memory that one kind of message passes through.
  struct Stage {
    std::shared_ptr<void> memory;
    std::uint64_t bytes = 0;
  };
  RankRoute route_of(const Message& message) const;
  void choose_routes(const std::array<RankRoute, 3>& wanted);
  /// Why a route cannot be taken; empty: it brought every rank's pattern to every other rank. Collective.
  std::string probe(RankRoute route);
  std::string local_obstacle(RankRoute route);
  /// Whether the route brings other ranks' patterns; what it does instead. All ranks are able to try.
  std::string try_pattern(RankRoute route, Memory& from, Memory& to);
  void move_by_nccl(const std::vector<const Message*>& messages, OrderedQueue& queue);
  void move_by_ranks(const std::vector<const Message*>& messages, OrderedQueue& queue);
  std::byte* stage(const Message& message, std::size_t index);
  /// Waits for the transfer stream. Throws what began a failure, not that this stream did not run for it: the
  /// others are told the cause.
  void wait_for_transfer();

  std::shared_ptr<Communicator> ranks_;
  DeviceSet devices_;
  InlineDevice inline_device_;
  std::unique_ptr<Stream> compute_, transfer_;
  std::shared_ptr<DeviceCollectives> nccl_;
  std::array<RankRoute, 3> route_{};
  std::map<std::array<int, 5>, Stage> stages_;
  std::vector<std::shared_ptr<void>> outgrown_;  ///< stages that the stream may still read
};

}  // namespace shardwise
