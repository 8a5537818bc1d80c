#pragma once
// A backend whose messages pass through a hook: lost, damaged, late, out of order.

#include <functional>
#include <memory>
#include <utility>

#include "grid/grid_cases.hpp"

namespace shardwise::grid_test {

/// What becomes of one message; `inner` moves it as it should be.
using MessageHook = std::function<void(BlockTransport& inner, const Message& message, OrderedQueue& queue)>;

class HookedTransport final : public BlockTransport {
 public:
  HookedTransport(std::unique_ptr<BlockTransport> inner, MessageHook hook)
      : inner_(std::move(inner)), hook_(std::move(hook)) {}
  std::string name() const override { return "hooked " + inner_->name(); }
  std::vector<int> local_parts() const override { return inner_->local_parts(); }
  Stream& compute(int part) override { return inner_->compute(part); }
  Stream& transfer(int part) override { return inner_->transfer(part); }
  void move(const std::vector<Message>& messages, OrderedQueue& queue) override {
    for (const Message& message : messages) hook_(*inner_, message, queue);
  }
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override { return inner_->host_memory(bytes); }
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override {
    return inner_->gather_words(words);
  }
  bool agree(bool yes) override { return inner_->agree(yes); }
  SimWorld* sim_world() const override { return inner_->sim_world(); }

 private:
  std::unique_ptr<BlockTransport> inner_;
  MessageHook hook_;
};

/// Serial or LocalDevices behind a hook.
template <class Backend>
struct Hooked {
  Backend backend;
  MessageHook hook;
  PartitionRequest request() const { return backend.request(); }
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const {
    return std::make_unique<HookedTransport>(backend.connect(partition), hook);
  }
};
static_assert(DistributedBackend<Hooked<Serial>> && DistributedBackend<Hooked<LocalDevices>>);

}  // namespace shardwise::grid_test
