#include "grid/operation_queue.hpp"

#include <algorithm>

namespace shardwise {

namespace {

bool same_bytes(const Access& a, const Access& b) {
  return a.begin == b.begin && a.length == b.length && a.stride0 == b.stride0 && a.stride1 == b.stride1 &&
         a.count0 == b.count0 && a.count1 == b.count1;
}

/// Whether whatever conflicts with `old` conflicts with `now` too.
bool replaces(const Access& now, const Access& old) {
  if (now.mode != AccessMode::write && now.mode != old.mode) return false;
  return same_bytes(now, old) || covers(now, old);
}

}  // namespace

std::size_t OperationQueue::line_of(Stream& stream) {
  for (std::size_t i = 0; i < lines_.size(); ++i)
    if (lines_[i].stream == &stream) return i;
  lines_.push_back({});
  lines_.back().stream = &stream;
  return lines_.size() - 1;
}

void OperationQueue::order(std::size_t line, const Entry& entry) {
  if (entry.line == line || known(lines_[line], entry.line) >= entry.tick) return;
  Line& from = lines_[entry.line];
  if (from.event_tick < entry.tick) {
    from.event = from.stream->record();
    from.event_tick = from.tick;
    from.event_known = from.known;
  }
  Line& to = lines_[line];
  to.stream->wait(from.event);
  ++edges_;
  to.known.resize(std::max(to.known.size(), lines_.size()));
  to.known[entry.line] = std::max(to.known[entry.line], from.event_tick);
  for (std::size_t i = 0; i < from.event_known.size(); ++i)
    to.known[i] = std::max(to.known[i], from.event_known[i]);
}

void OperationQueue::prune(std::vector<Entry>& history) {
  std::erase_if(history, [&](const Entry& entry) {
    for (std::size_t i = 0; i < lines_.size(); ++i)
      if (i != entry.line && known(lines_[i], entry.line) < entry.tick) return false;
    return true;
  });
}

void OperationQueue::enqueue(Stream& stream, Operation operation) {
  const std::size_t line = line_of(stream);
  for (const Access& access : operation.accesses) {
    if (access.is_empty()) continue;
    const auto found = history_.find(access.resource);
    if (found == history_.end()) continue;
    for (const Entry& entry : found->second)
      if (conflicts(access, entry.access)) order(line, entry);
  }
  const std::uint64_t tick = ++lines_[line].tick;
  for (const Access& access : operation.accesses) {
    if (access.is_empty() || access.resource == 0) continue;
    std::vector<Entry>& history = history_[access.resource];
    std::erase_if(history, [&](const Entry& entry) {
      const bool ordered = entry.line == line || known(lines_[line], entry.line) >= entry.tick;
      return ordered && replaces(access, entry.access);
    });
    if (history.size() >= 24) prune(history);
    history.push_back({access, line, tick});
  }
  stream.enqueue(std::move(operation));
}

void OperationQueue::wait_for_uses(Stream& stream, ResourceId resource) {
  const auto found = history_.find(resource);
  if (found == history_.end()) return;
  const std::size_t line = line_of(stream);
  for (const Entry& entry : found->second) order(line, entry);
}

void OperationQueue::note_write(Stream& stream, ResourceId resource, std::uint64_t bytes) {
  wait_for_uses(stream, resource);
  note_allocation(stream, resource, bytes);
}

void OperationQueue::note_allocation(Stream& stream, ResourceId resource, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::size_t line = line_of(stream);
  Access access;
  access.resource = resource;
  access.length = bytes;
  access.mode = AccessMode::write;
  history_[resource] = {{access, line, ++lines_[line].tick}};
}

void OperationQueue::retire(Stream& stream, ResourceId resource) {
  wait_for_uses(stream, resource);
  history_.erase(resource);
  ++lines_[line_of(stream)].tick;  // the release
}

Event OperationQueue::record(Stream& stream) {
  Line& line = lines_[line_of(stream)];
  line.event = stream.record();
  line.event_tick = line.tick;
  line.event_known = line.known;
  return line.event;
}

}  // namespace shardwise
