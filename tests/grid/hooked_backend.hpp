#pragma once
// A backend whose messages pass through a hook: lost, damaged, late, out of order, refused.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "grid/grid_cases.hpp"

namespace shardwise::grid_test {

using MessageCall = std::function<void(BlockTransport& inner, const Message& message, OrderedQueue& queue)>;

/// What else happens to every message of a move, which goes on as a whole (a rank may wait for a message only
/// once its own have been sent). Each may be empty.
struct MessageHook {
  MessageCall before, after;
  /// True: the message does not go on; what happens to it instead has been done.
  std::function<bool(BlockTransport& inner, const Message& message, OrderedQueue& queue)> instead;
};

/// What is written on the messages of a move.
using Rewrite = std::function<std::vector<Message>(std::vector<Message>)>;

class HookedTransport final : public BlockTransport {
 public:
  HookedTransport(std::unique_ptr<BlockTransport> inner, MessageHook hook, Rewrite rewrite = {})
      : inner_(std::move(inner)), hook_(std::move(hook)), rewrite_(std::move(rewrite)) {}
  std::string name() const override { return "hooked " + inner_->name(); }
  std::vector<int> local_parts() const override { return inner_->local_parts(); }
  Stream& compute(int part) override { return inner_->compute(part); }
  Stream& transfer(int part) override { return inner_->transfer(part); }
  void move(const std::vector<Message>& messages, OrderedQueue& queue) override {
    std::vector<Message> rest;
    for (const Message& message : messages)
      if (!hook_.instead || !hook_.instead(*inner_, message, queue)) rest.push_back(message);
    for (const Message& message : rest)
      if (hook_.before) hook_.before(*inner_, message, queue);
    inner_->move(rewrite_ ? rewrite_(rest) : rest, queue);
    for (const Message& message : rest)
      if (hook_.after) hook_.after(*inner_, message, queue);
  }
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override { return inner_->host_memory(bytes); }
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override {
    return inner_->gather_words(words);
  }
  bool agree(bool yes) override { return inner_->agree(yes); }
  int processes() const override { return inner_->processes(); }
  std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> bytes, int root) override {
    return inner_->gather_bytes(bytes, root);
  }
  bool move_waits() const override { return inner_->move_waits(); }
  void check_link() override { inner_->check_link(); }
  SimWorld* sim_world() const override { return inner_->sim_world(); }

 private:
  std::unique_ptr<BlockTransport> inner_;
  MessageHook hook_;
  Rewrite rewrite_;
};

/// Ranks that write other things on their messages.
struct Rewritten {
  Mpi backend;
  Rewrite rewrite;
  PartitionRequest request() const { return backend.request(); }
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const {
    return std::make_unique<HookedTransport>(backend.connect(partition), MessageHook{}, rewrite);
  }
};

/// Any backend behind a hook.
template <class Backend>
struct Hooked {
  Backend backend;
  MessageHook hook;
  PartitionRequest request() const { return backend.request(); }
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const {
    return std::make_unique<HookedTransport>(backend.connect(partition), hook);
  }
};
static_assert(DistributedBackend<Hooked<Serial>> && DistributedBackend<Hooked<LocalDevices>> &&
              DistributedBackend<Hooked<Mpi>>);

}  // namespace shardwise::grid_test
