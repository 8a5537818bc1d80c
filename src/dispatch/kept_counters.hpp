#pragma once
// Counters of rows that a scene keeps between calls, clean: a call that finds some needs neither memory nor a
// memset before its first launch. It clears them behind its last one, when nobody waits for that.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "dispatch/row_operation.hpp"
#include "shardwise/dispatch/executor.hpp"
#include "shardwise/runtime/buffer.hpp"

namespace shardwise {

/// The counters of one stream, which uses them call after call: its order is all the order that they need.
class KeptCounters {
 public:
  explicit KeptCounters(Stream& stream) : memory_(stream, 1, "row counters", MemoryUse::scene) {}

  RowCounters* data() const { return memory_.data(); }
  std::uint64_t bytes() const { return memory_.bytes(); }
  Access accumulates() const { return memory_.accumulates(); }
  Access reads() const { return memory_.reads(); }

  /// The next call takes them. Whether it has to clear them first: nobody has yet, or what was to clear them
  /// was dropped behind an error, or has not run yet.
  bool take() { return cleared_by_->load() != users_++; }
  /// For the beginning of a call that has to.
  Operation clear_first() const;
  /// For the end of the call that took them last.
  Operation clear_behind() const;

 private:
  Buffer<RowCounters> memory_;
  std::uint64_t users_ = 0;
  /// Which call's clear_behind() has run, counted from 1. Shared with operations, which may outlive the
  /// scene.
  std::shared_ptr<std::atomic<std::uint64_t>> cleared_by_ =
      std::make_shared<std::atomic<std::uint64_t>>(never);
  static constexpr std::uint64_t never = ~std::uint64_t{0};
};

/// One a stream. The streams outlive it.
class CounterStore {
 public:
  KeptCounters& of(Stream& stream) { return kept_.try_emplace(&stream, stream).first->second; }
  /// On a device.
  std::uint64_t bytes(const Device& device) const;

 private:
  std::map<Stream*, KeptCounters> kept_;
};

}  // namespace shardwise
