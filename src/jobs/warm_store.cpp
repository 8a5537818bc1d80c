#include "jobs/warm_store.hpp"

#include <fmt/format.h>

#include <iterator>

#include "shardwise/runtime/parse.hpp"

namespace shardwise {

std::shared_ptr<void> LaneStore::get(const void* cache, const std::string& name, const std::string& key,
                                     std::uint64_t bytes, const Factory& factory) {
  const std::pair<const void*, std::string> both(cache, key);
  if (const auto found = index_.find(both); found != index_.end()) {
    ++counts_.hits;
    values_.splice(values_.begin(), values_, found->second);
    return values_.front().value;
  }
  ++counts_.misses;
  if (!make_room(bytes))
    throw Error(
        ErrorClass::memory,
        fmt::format(
            "{}: no memory for '{}' of the cache '{}': it needs {}, and jobs and values in use have {} of "
            "{}; raise the memory for jobs",
            device_name_, key, name, human_bytes(bytes), human_bytes(account_.load(device_)),
            human_bytes(account_.capacity(device_))));
  LoadAccount::Token promise = account_.reserve(device_, bytes);
  std::shared_ptr<void> value = factory();
  values_.push_front({both, value, std::move(promise)});
  index_[both] = values_.begin();
  return value;
}

std::uint64_t LaneStore::evictable_bytes() const {
  std::uint64_t sum = 0;
  for (const Value& value : values_)
    if (value.value.use_count() == 1) sum += value.bytes.amount();
  return sum;
}

bool LaneStore::make_room(std::uint64_t bytes) {
  const auto has_room = [&] { return account_.try_reserve(device_, bytes).has_value(); };
  for (auto at = values_.end(); !has_room();) {
    while (at != values_.begin() && std::prev(at)->value.use_count() > 1) --at;
    if (at == values_.begin()) return false;
    --at;
    index_.erase(at->key);
    at = values_.erase(at);
    ++counts_.evictions;
  }
  return true;
}

}  // namespace shardwise
