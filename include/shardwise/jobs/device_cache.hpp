#pragma once
// State that jobs keep on a device for the next job with the same key: a scene's replica, weights, a plan.
//
//   DeviceCache<Table> tables("tables");
//   ... in a program:
//   std::shared_ptr<Table> table = tables.get(job, job.job().key, bytes, [&] { return build(job); });

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "shardwise/jobs/job.hpp"

namespace shardwise {

/// What one device keeps, for all caches. Used by the device's worker alone.
class WarmStore {
 public:
  using Factory = std::function<std::shared_ptr<void>()>;
  virtual ~WarmStore() = default;
  /// The value of (cache, key): the one that is kept, or what `factory` makes once `bytes` are free, for
  /// which those that no job is using are dropped, least recently used first. Throws a memory Error where
  /// even so they are not.
  virtual std::shared_ptr<void> get(const void* cache, const std::string& name, const std::string& key,
                                    std::uint64_t bytes, const Factory& factory) = 0;

 protected:
  WarmStore() = default;
};

/// One value of T for each key and device. T lives, and is destroyed, on the device's worker. The values are
/// the executor's: they go when it goes; the cache itself must live as long. Thread-safe.
template <class T>
class DeviceCache {
 public:
  /// `name` is for messages.
  explicit DeviceCache(std::string name) : name_(std::move(name)) {}
  DeviceCache(const DeviceCache&) = delete;
  DeviceCache& operator=(const DeviceCache&) = delete;

  /// Kept for `key` on the job's device, or made by `factory` (which returns a T or a std::shared_ptr<T>).
  /// `bytes` of the device count as taken while it is kept. The job keeps it alive until it has ended.
  template <class Factory>
  std::shared_ptr<T> get(JobContext& job, const std::string& key, std::uint64_t bytes, Factory&& factory) {
    std::shared_ptr<void> value =
        job.warm_store().get(this, name_, key, bytes, [&]() -> std::shared_ptr<void> {
          if constexpr (std::is_convertible_v<std::invoke_result_t<Factory&>, std::shared_ptr<T>>) {
            return factory();
          } else {
            return std::make_shared<T>(factory());
          }
        });
    job.hold(value);
    return std::static_pointer_cast<T>(std::move(value));
  }

 private:
  std::string name_;
};

}  // namespace shardwise
