#include "shardwise/runtime/access.hpp"

#include <atomic>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

ResourceId next_resource_id() noexcept {
  static std::atomic<ResourceId> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

namespace {

/// Of two ranges that are not empty; a range may reach up to the last of the 2^64 bytes.
bool ranges_touch(std::uint64_t begin_a, std::uint64_t length_a, std::uint64_t begin_b,
                  std::uint64_t length_b) {
  return begin_a < begin_b ? begin_b - begin_a < length_a : begin_a - begin_b < length_b;
}

bool is_plain(const Access& a) {
  return a.count0 == 1 && a.count1 == 1;
}

/// Whether any row of the box `a` touches the plain range [begin, begin + length).
bool box_touches_range(const Access& a, std::uint64_t begin, std::uint64_t length) {
  for (std::uint32_t j = 0; j < a.count1; ++j) {
    const std::uint64_t plane = a.begin + j * a.stride1;
    const std::uint64_t plane_length = (a.count0 - 1) * a.stride0 + a.length;
    if (!ranges_touch(plane, plane_length, begin, length)) continue;
    // The first row that ends after `begin`; if it does not touch, the next starts later still.
    std::uint64_t row = 0;
    if (a.stride0 > 0 && begin >= plane + a.length) row = (begin - plane - a.length) / a.stride0 + 1;
    if (row < a.count0 && ranges_touch(plane + row * a.stride0, a.length, begin, length)) return true;
  }
  return false;
}

bool overlap(const Access& a, const Access& b) {
  if (a.is_empty() || b.is_empty()) return false;
  if (!ranges_touch(a.begin, a.end() - a.begin, b.begin, b.end() - b.begin)) return false;
  if (is_plain(b)) return box_touches_range(a, b.begin, b.length);
  for (std::uint32_t j = 0; j < b.count1; ++j)
    for (std::uint32_t i = 0; i < b.count0; ++i)
      if (box_touches_range(a, b.begin + j * b.stride1 + i * b.stride0, b.length)) return true;
  return false;
}

}  // namespace

bool conflicts(const Access& a, const Access& b) {
  if (a.resource != b.resource) return false;
  if (a.mode == b.mode && a.mode != AccessMode::write) return false;
  return overlap(a, b);
}

bool covers(const Access& outer, const Access& inner) {
  if (outer.resource != inner.resource) return false;
  if (inner.is_empty()) return true;
  return is_plain(outer) && outer.begin <= inner.begin && inner.end() <= outer.end();
}

AccessList::AccessList(std::initializer_list<Access> accesses) {
  for (const Access& access : accesses) add(access);
}

void AccessList::add(const Access& access) {
  if (size_ == capacity)
    throw Error(ErrorClass::internal,
                "AccessList: more than 8 accesses in one operation; merge neighbouring ranges");
  accesses_[size_++] = access;
}

}  // namespace shardwise
