#pragma once
// Which pairs of devices really reach each other's memory: drivers say yes where copies bring zeros or
// garbage.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

/// Whether `to` gets a pattern out of `from`'s memory: by a copy, and by reading and writing it in place.
/// A Side has write(words), read(), copy_from(side) and reach_into(side): the last one leaves the other's
/// words in its own memory, and their inverse in the other's.
template <class Side>
bool brings_pattern(Side& from, Side& to, int source, int target, std::size_t words) {
  std::vector<std::uint32_t> pattern(words), inverse(words);
  for (std::size_t i = 0; i < words; ++i) {
    pattern[i] =
        static_cast<std::uint32_t>(i) * 2654435761u + static_cast<std::uint32_t>(source * 64 + target);
    inverse[i] = ~pattern[i];
  }
  from.write(pattern);
  to.copy_from(from);
  if (to.read() != pattern) return false;
  to.reach_into(from);
  return to.read() == pattern && from.read() == inverse;
}

/// What is known of every ordered pair: each is tried once. Not for several threads at once, but staged() is.
template <int Most>
class PeerTable {
 public:
  struct Member {
    int index;
    std::string name;
  };
  /// Tries the pairs that nothing is known of: works(source, target). One that does not work is staged from
  /// now on, with one warning for all of them, or refused by a usage Error.
  template <class Works>
  void probe(const std::vector<Member>& members, bool require_peer, const Works& works,
             std::vector<std::string>& warnings) {
    std::string found;
    for (const Member& from : members)
      for (const Member& to : members) {
        if (from.index == to.index) continue;
        if (!probed_[at(from.index)][at(to.index)]) set(from.index, to.index, !works(from.index, to.index));
        if (staged(from.index, to.index))
          found.append(found.empty() ? "" : ", ").append(from.name).append(" to ").append(to.name);
      }
    if (found.empty()) return;
    const std::string text = "no working peer access " + found;
    if (require_peer)
      throw_usage("devices: " + text + "; drop --require-peer to copy through pinned host memory");
    warnings.push_back(text + ": copies go through pinned host memory");
  }
  bool staged(int source, int target) const noexcept { return staged_[at(source)][at(target)]; }
  void set(int source, int target, bool staged) noexcept {
    staged_[at(source)][at(target)] = staged;
    probed_[at(source)][at(target)] = true;
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  std::array<std::array<std::atomic<bool>, Most>, Most> staged_{}, probed_{};
};

}  // namespace shardwise
