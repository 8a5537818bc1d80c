#include "runtime/race_checker.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardwise {

std::string Race::text() const {
  return fmt::format(
      "race: '{}' and '{}' touch the same bytes (resource {}) and no chain of events makes that safe", first,
      second, resource);
}

std::size_t RaceChecker::add_stream(std::string name) {
  stream_names_.push_back(std::move(name));
  clocks_.emplace_back();
  return clocks_.size() - 1;
}

void RaceChecker::join(VectorClock& into, const VectorClock& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

bool RaceChecker::ordered(const Entry& entry, const VectorClock& clock) const {
  return entry.stream < clock.size() && entry.tick <= clock[entry.stream];
}

void RaceChecker::on_operation(std::size_t stream, const Operation& operation) {
  VectorClock& clock = clocks_[stream];
  join(clock, host_clock_);
  if (clock.size() <= stream) clock.resize(stream + 1, 0);
  const std::uint64_t tick = ++clock[stream];
  const std::string name = fmt::format("{} on {}", operation.name, stream_names_[stream]);

  for (const Access& access : operation.accesses) {
    if (access.is_empty()) continue;
    if (const auto release = released_.find(access.resource); release != released_.end())
      report(release->second, name, access.resource);
    std::vector<Entry>& entries = history_[access.resource];
    for (const Entry& entry : entries)
      if (conflicts(entry.access, access) && !ordered(entry, clock))
        report(entry.name, name, access.resource);
    std::erase_if(entries, [&](const Entry& entry) {
      return (access.mode == AccessMode::write || access.mode == entry.access.mode) &&
             ordered(entry, clock) && covers(access, entry.access);
    });
  }
  for (const Access& access : operation.accesses) {
    if (access.is_empty()) continue;
    if (operation.kind == OperationKind::release) {
      history_.erase(access.resource);
      released_.emplace(access.resource, name);
    } else if (!released_.contains(access.resource)) {
      history_[access.resource].push_back({access, stream, tick, name});
    }
  }
}

void RaceChecker::report(const std::string& first, const std::string& second, ResourceId resource) {
  const bool known = std::any_of(races_.begin(), races_.end(), [&](const Race& race) {
    return race.resource == resource && race.first == first && race.second == second;
  });
  if (!known) races_.push_back({first, second, resource});
}

VectorClock RaceChecker::on_record(std::size_t stream) const {
  VectorClock clock = clocks_[stream];
  join(clock, host_clock_);
  return clock;
}

void RaceChecker::on_wait(std::size_t stream, const VectorClock& event) {
  join(clocks_[stream], event);
}

void RaceChecker::on_host_wait(const VectorClock& event) {
  join(host_clock_, event);
}

}  // namespace shardwise
