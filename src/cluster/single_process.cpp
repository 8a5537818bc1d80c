#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <queue>
#include <utility>

#include "shardwise/cluster/communicator.hpp"

namespace shardwise {
namespace {

/// Messages of a process to itself, by tag, in order.
class Mailbox {
 public:
  struct Slot {
    std::span<std::byte> target;
    bool done = false, dropped = false;
    std::string error;
  };

  void send(std::span<const std::byte> bytes, int tag) {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[tag];
    while (!line.waiting.empty() && line.waiting.front()->dropped) line.waiting.pop();
    if (line.waiting.empty()) {
      line.sent.emplace(bytes.begin(), bytes.end());
    } else {
      fill(*line.waiting.front(), bytes);
      line.waiting.pop();
    }
  }
  /// Nobody waits for it any more; its memory is the caller's again.
  void drop(Slot& slot) {
    const std::lock_guard lock(mutex_);
    slot.dropped = true;
  }
  std::shared_ptr<Slot> receive(std::span<std::byte> bytes, int tag) {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[tag];
    auto slot = std::make_shared<Slot>(Slot{bytes, false, false, {}});
    if (line.sent.empty()) {
      line.waiting.push(slot);
    } else {
      fill(*slot, line.sent.front());
      line.sent.pop();
    }
    return slot;
  }
  bool done(const Slot& slot) {
    const std::lock_guard lock(mutex_);
    if (slot.done && !slot.error.empty()) throw Error(ErrorClass::internal, slot.error);
    return slot.done;
  }

 private:
  struct Line {
    std::queue<std::vector<std::byte>> sent;
    std::queue<std::shared_ptr<Slot>> waiting;
  };
  static void fill(Slot& slot, std::span<const std::byte> bytes) {
    if (bytes.size() != slot.target.size()) {
      slot.error = fmt::format("a message of {} bytes was received as one of {}; both must be equal",
                               bytes.size(), slot.target.size());
    } else if (!bytes.empty()) {
      std::memcpy(slot.target.data(), bytes.data(), bytes.size());
    }
    slot.done = true;
  }
  std::mutex mutex_;
  std::map<int, Line> lines_;
};

class DoneMessage final : public RankMessage {
 public:
  bool test() override { return true; }
  void wait() override {}
};

class SelfMessage final : public RankMessage {
 public:
  SelfMessage(std::shared_ptr<Mailbox> box, std::shared_ptr<Mailbox::Slot> slot)
      : box_(std::move(box)), slot_(std::move(slot)) {}
  ~SelfMessage() override { box_->drop(*slot_); }
  bool test() override { return box_->done(*slot_); }
  void wait() override {
    if (!box_->done(*slot_))
      throw Error(ErrorClass::internal,
                  "a message to this process itself is waited for before it was sent; send first");
  }

 private:
  std::shared_ptr<Mailbox> box_;
  std::shared_ptr<Mailbox::Slot> slot_;
};

class SingleProcess final : public Communicator {
 public:
  SingleProcess() : Communicator(0, 1) {}
  std::string name() const override { return "single process"; }
  std::string host(int) const override {
    char text[256] = {};
    gethostname(text, sizeof text - 1);
    return text;
  }
  std::unique_ptr<RankMessage> send(std::span<const std::byte> bytes, int target, int tag,
                                    std::string_view what) override {
    check(target, tag, what);
    box_->send(bytes, tag);
    return std::make_unique<DoneMessage>();
  }
  std::unique_ptr<RankMessage> receive(std::span<std::byte> bytes, int source, int tag,
                                       std::string_view what) override {
    check(source, tag, what);
    return std::make_unique<SelfMessage>(box_, box_->receive(bytes, tag));
  }
  std::shared_ptr<Communicator> duplicate(std::string_view) override {
    return std::make_shared<SingleProcess>();
  }
  void set_step(std::string_view) override {}
  [[noreturn]] void abort(const std::string& text, int exit_code) override {
    std::fprintf(stderr, "%s\n", text.c_str());
    std::fflush(stderr);
    std::_Exit(exit_code);
  }

 protected:
  std::vector<Header> exchange_headers(const Header& mine) override { return {mine}; }
  void move_broadcast(std::span<std::byte>, int) override {}
  void move_failure(std::span<std::byte>, int) override {}
  void move_reduce(std::span<std::int64_t>, Fold, int) override {}
  std::vector<std::vector<std::byte>> move_gather(std::span<const std::byte> bytes,
                                                  const std::vector<std::uint64_t>&, int) override {
    return {{bytes.begin(), bytes.end()}};
  }
  std::vector<std::vector<std::byte>> move_exchange(
      const std::vector<std::vector<std::byte>>& outgoing) override {
    return outgoing;
  }
  void failure_was_agreed() override { box_ = std::make_shared<Mailbox>(); }
  void entered(std::string_view) override {}
  void left() override {}

 private:
  static void check(int peer, int tag, std::string_view what) {
    if (peer != 0) throw_usage(fmt::format("message '{}': there is no rank {}, 1 process runs", what, peer));
    if (tag < 0 || tag > 32767)
      throw_usage(fmt::format("message '{}': the tag {} must be 0 to 32767", what, tag));
  }
  std::shared_ptr<Mailbox> box_ = std::make_shared<Mailbox>();
};

}  // namespace

std::shared_ptr<Communicator> single_process() {
  return std::make_shared<SingleProcess>();
}

}  // namespace shardwise
