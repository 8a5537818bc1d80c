#pragma once
// Placement by content: the same key goes to the same device, so what the device keeps for it is found again.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise {

/// The first four bytes of BLAKE3(key), read little-endian, modulo `n`. The empty key is a key. Throws
/// std::invalid_argument where n is 0.
std::uint32_t shard_by_content(std::string_view key, std::uint32_t n);

/// A device of a placement. Rendezvous hashes the name: give what stays when others come and go (a UUID).
struct PlacementDevice {
  std::string name;
  double weight = 1;  ///< finite and above 0: its share of the keys with rendezvous; modulo ignores it
};

/// Highest random weight: the device whose score for the key is greatest (Thaler, Ravishankar, "Using
/// name-based mappings to increase hit rates", IEEE/ACM Trans. Netw. 6, 1998). A device that comes takes
/// about its share of the keys, from all; one that goes leaves the others' keys where they are. The score of
/// equal weights w is a 64-bit hash h of key and name; of unequal ones -w / ln((h + 1/2) / 2^64)
/// (Schindelhauer, Schomaker, "Weighted distributed hash tables", SPAA 2005).
class Rendezvous {
 public:
  /// Throws std::invalid_argument: no devices, a name twice, a weight that is not finite and positive.
  explicit Rendezvous(std::vector<PlacementDevice> devices);

  int size() const { return static_cast<int>(seeds_.size()); }
  int first(std::string_view key) const;
  /// All devices, the key's first choice first.
  std::vector<int> ranking(std::string_view key) const;

 private:
  struct Score {
    double weighted;
    std::uint64_t plain;
  };
  Score score(std::uint64_t key_hash, std::size_t device) const;
  bool better(const Score& a, const Score& b) const;

  std::vector<std::uint64_t> seeds_;
  std::vector<double> weights_;
  bool weighted_ = false;
};

/// Where a key's content device is.
enum class ContentHash { modulo, rendezvous };
/// `pinned`: always the content device; independent of order. `bounded`: another where that is overloaded;
/// then where a key goes depends on what came before it.
enum class PlacementMode { pinned, bounded };

struct PlacerOptions {
  PlacementMode mode = PlacementMode::bounded;
  ContentHash hash = ContentHash::modulo;
  std::uint64_t spill_threshold = 0;  ///< how far above the least load the content device may be
  bool keep_log = false;              ///< without it memory is O(devices), however long the stream
};

/// One call on a placer.
struct PlacementEvent {
  enum class Kind { place, seed, complete };
  Kind kind = Kind::place;
  std::string key;  ///< of place
  std::uint64_t cost = 0;
  int device = -1;  ///< -1: placed nowhere (cost 0)
  friend bool operator==(const PlacementEvent&, const PlacementEvent&) = default;
};

struct Placement {
  int device = 0;
  bool spilled = false;  ///< not the key's content device
};

/// Places a stream of keys, one at a time. Not thread-safe.
///
/// `bounded`: the content device, unless its load exceeds the least load by more than the threshold; then the
/// least-loaded device (ties: smaller index), or with rendezvous the key's next choice that does not exceed
/// it so. Hence, without seeds and completions, max load - min load <= spill_threshold + c_max: the device
/// chosen had at most min + threshold, and the least load never falls; and so makespan <= total/m + (1 - 1/m)
/// (spill_threshold + c_max).
class StreamPlacer {
 public:
  /// Throws std::invalid_argument as Rendezvous does.
  StreamPlacer(std::vector<PlacementDevice> devices, PlacerOptions options = {});

  /// Where the key goes; its device's load grows by `cost`. A cost of 0 places nothing: empty. Throws
  /// std::invalid_argument where the load would not fit 64 bits; nothing has changed then.
  std::optional<Placement> place(std::string_view key, std::uint64_t cost);
  /// The key's content device, whatever the loads.
  int content_device(std::string_view key) const;
  /// Adds load from elsewhere. Throws std::invalid_argument for an unknown device, or as place().
  void seed(int device, std::uint64_t cost);
  /// Takes finished load off, down to 0 at most. Throws std::invalid_argument for an unknown device.
  void complete(int device, std::uint64_t cost);

  const std::vector<std::uint64_t>& loads() const { return loads_; }
  const PlacerOptions& options() const { return options_; }
  /// Every call so far; empty unless options.keep_log.
  const std::vector<PlacementEvent>& log() const { return log_; }
  /// Does what a log says on this placer. Throws std::invalid_argument at the first key that goes elsewhere
  /// than it did then (other devices, options or loads).
  void replay(std::span<const PlacementEvent> log);

 private:
  std::size_t checked(int device, const char* call) const;
  void add(std::size_t device, std::uint64_t cost, const char* call);
  Placement choose(std::string_view key) const;

  std::vector<PlacementDevice> devices_;
  PlacerOptions options_;
  Rendezvous rendezvous_;
  std::vector<std::uint64_t> loads_;
  std::vector<PlacementEvent> log_;
};

}  // namespace shardwise
