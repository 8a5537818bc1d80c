#include "shardwise/shard/split.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace shardwise {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse(const std::ostringstream& text) {
  throw std::invalid_argument(text.str());
}

void check_window(const char* what, Window window) {
  if (window.begin < 0 || window.count < 0 || window.count > kMost - window.begin) {
    std::ostringstream text;
    text << what << ": a window that begins at " << window.begin << " with count " << window.count
         << "; both must be at least 0 and their sum below 2^63";
    refuse(text);
  }
}

// floor(total * prefix / sum). prefix <= sum, so the result is at most total.
std::int64_t share(std::int64_t total, std::uint64_t prefix, std::uint64_t sum) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(total) * prefix / sum);
}

}  // namespace

std::vector<Shard> split_rows(std::int64_t total, const Weights& weights) {
  if (total < 0) {
    std::ostringstream text;
    text << "split: " << total << " rows; the number of rows cannot be negative";
    refuse(text);
  }
  return split_lanes({0, total}, weights, 1);
}

std::vector<Shard> split_lanes(Window window, const Weights& weights, std::int64_t granule) {
  check_window("split", window);
  if (granule < 1) {
    std::ostringstream text;
    text << "split: a granule of " << granule << " lanes; it must be at least 1";
    refuse(text);
  }
  std::vector<Shard> shards;
  std::uint64_t prefix = 0;
  std::int64_t begin = window.begin;
  for (std::size_t device = 0; device < weights.size(); ++device) {
    prefix += weights[device];
    std::int64_t end = window.end();
    // Once the weights are used up the window's end is not rounded: devices without weight that follow get
    // nothing.
    if (prefix < weights.sum()) {
      end = window.begin + share(window.count, prefix, weights.sum());
      end = std::max(begin, end - end % granule);
    }
    if (end > begin) shards.push_back({static_cast<int>(device), {begin, end - begin}});
    begin = end;
  }
  return shards;
}

Window lane_window(std::int64_t offset, std::int64_t count, std::int64_t total) {
  std::ostringstream text;
  if (total < 0) {
    text << "lanes: a total of " << total << " lanes; it cannot be negative";
    refuse(text);
  }
  if (offset < 0) {
    text << "lane_offset is " << offset << "; it must be between 0 and the " << total << " lanes of the call";
    refuse(text);
  }
  if (offset > total) {
    text << "lane_offset is " << offset << ", past the " << total << " lanes of the call";
    refuse(text);
  }
  if (count < 0) return {offset, total - offset};
  if (count > total - offset) {
    text << "lane_offset " << offset << " with lane_count " << count << " ends past the " << total
         << " lanes of the call; at most " << total - offset
         << " lanes are left (a negative lane_count takes them)";
    refuse(text);
  }
  return {offset, count};
}

SubWindows::SubWindows(Window window, std::int64_t chunk) : window_(window), chunk_(chunk) {
  check_window("chunks", window);
  if (chunk < 1 && !(chunk == 0 && window.empty())) {
    std::ostringstream text;
    text << "chunks: a chunk of " << chunk << " rows for a window of " << window.count
         << "; a chunk has at least 1 row";
    refuse(text);
  }
  // Not (count + chunk - 1) / chunk: that overflows near 2^63.
  size_ = window.empty() ? 0 : window.count / chunk + (window.count % chunk != 0);
}

Window SubWindows::operator[](std::int64_t index) const noexcept {
  const std::int64_t done = index * chunk_;
  return {window_.begin + done, std::min(chunk_, window_.count - done)};
}

}  // namespace shardwise
