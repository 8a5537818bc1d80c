#pragma once

#include <list>
#include <map>
#include <string>
#include <utility>

#include "shardwise/jobs/device_cache.hpp"
#include "shardwise/shard/load_account.hpp"

namespace shardwise {

/// The values that one device keeps; belongs to its worker. Their bytes are promises of the executor's
/// account.
class LaneStore final : public WarmStore {
 public:
  LaneStore(LoadAccount account, int device, std::string device_name)
      : account_(std::move(account)), device_(device), device_name_(std::move(device_name)) {}

  std::shared_ptr<void> get(const void* cache, const std::string& name, const std::string& key,
                            std::uint64_t bytes, const Factory& factory) override;

  /// Bytes of the values that no job is using.
  std::uint64_t evictable_bytes() const;
  /// Drops unused values, least recently used first, until `bytes` can be promised. False where they cannot.
  bool make_room(std::uint64_t bytes);
  void clear() { values_.clear(), index_.clear(); }

  /// Since the last call.
  struct Counts {
    std::uint64_t hits = 0, misses = 0, evictions = 0;
  };
  Counts take_counts() { return std::exchange(counts_, {}); }

 private:
  struct Value {
    std::pair<const void*, std::string> key;
    std::shared_ptr<void> value;
    LoadAccount::Token bytes;
  };
  LoadAccount account_;
  int device_;
  std::string device_name_;
  std::list<Value> values_;  ///< most recently used first
  std::map<std::pair<const void*, std::string>, std::list<Value>::iterator> index_;
  Counts counts_;
};

}  // namespace shardwise
