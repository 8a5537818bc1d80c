#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace shardwise {

/// What decided the chunk size.
enum class ChunkSource {
  whole_shard,    ///< nothing limits it: one launch for the whole shard
  explicit_size,  ///< the caller's chunk size
  budget,         ///< the largest that fits the memory budget (the caller's, or 80 % of what is free)
  cap,            ///< a limit of the operation, such as the room of an accumulator
};

/// "shard", "explicit", "budget" or "cap": the word that reports use.
const char* to_string(ChunkSource source) noexcept;

/// Thrown where no chunk fits the budget, or an explicit one does not. Nothing has been launched or
/// allocated.
class PlanRefused : public std::runtime_error {
 public:
  PlanRefused(const std::string& message, std::uint64_t needed_bytes, std::uint64_t budget_bytes,
              std::int64_t largest_chunk)
      : std::runtime_error(message),
        needed_bytes_(needed_bytes),
        budget_bytes_(budget_bytes),
        largest_chunk_(largest_chunk) {}
  std::uint64_t needed_bytes() const noexcept { return needed_bytes_; }  ///< saturated at 2^64 - 1
  std::uint64_t budget_bytes() const noexcept { return budget_bytes_; }
  std::int64_t largest_chunk() const noexcept { return largest_chunk_; }  ///< 0 where none fits

 private:
  std::uint64_t needed_bytes_, budget_bytes_;
  std::int64_t largest_chunk_;
};

/// A warp: the fewest lanes a launch is planned for (rows: 1).
inline constexpr std::int64_t kLeastLanes = 32;
/// With neither a chunk size nor a budget, this many percent of the memory free at the call are the budget.
inline constexpr std::uint64_t kFreePercent = 80;

/// What one device is asked to run, and with what. Bytes count above the built scene.
struct ChunkRequest {
  std::int64_t rows = 0;            ///< of the device's shard
  std::int64_t explicit_chunk = 0;  ///< the caller's chunk size; 0: none
  std::uint64_t budget_bytes = 0;   ///< the caller's budget; 0: none
  std::uint64_t free_bytes = 0;     ///< memory free at the call; 0: not known. Used where the two above are 0
  std::uint64_t row_bytes = 0;      ///< that one row occupies in one chunk
  std::uint64_t fixed_bytes = 0;    ///< whatever the chunk: partial sums, the caller's spans on this device
  int resident_chunks = 1;          ///< chunks alive at once when there are as many: 3 for rows, 1 for lanes
  std::int64_t least_rows = 1;      ///< 1 for rows, kLeastLanes for lanes
  std::int64_t cap_rows = 0;        ///< no chunk may be larger; 0: no cap
  std::string cap_reason;           ///< why: "an exact accumulator holds 2^31 crossings"
  std::string unit = "rows";        ///< or "lanes"
  std::string device;               ///< its name, for messages; may be empty
};

/// The decision. The estimated peak is fixed_bytes + chunk_rows * row_bytes * resident_chunks.
struct ChunkPlan {
  ChunkSource source = ChunkSource::whole_shard;
  std::uint64_t row_bytes = 0;
  std::uint64_t budget_bytes = 0;  ///< that the plan was held against; 0: none
  std::uint64_t fixed_bytes = 0;
  int resident_chunks = 1;      ///< never more than chunk_count (1 where that is 0)
  std::int64_t chunk_rows = 0;  ///< of every chunk but the last; 0 for an empty shard
  std::int64_t chunk_count = 0;
  bool halves_last = false;       ///< the last chunk is run as two, see halve_last_chunk
  double measured_row_bytes = 0;  ///< filled after the run, from the counted peak
  std::string reason;             ///< why this size, as a sentence

  std::uint64_t estimated_peak_bytes() const noexcept;  ///< saturated at 2^64 - 1
  /// Of the chunk that comes next while `left` rows of the shard are to be run.
  std::int64_t next_rows(std::int64_t left) const noexcept;
  /// Two or three lines for people: the decision, why, and the estimate against the budget.
  std::string explain(const std::string& unit = "rows") const;
};

/// Decides the chunk size of one device's shard:
/// 1. an explicit size is taken as given; beside an explicit budget it is refused if it does not fit;
/// 2. otherwise the whole shard, if it fits the budget in one chunk;
/// 3. otherwise the largest chunk with fixed + chunk * row_bytes * resident_chunks <= budget;
/// and never more than the cap (an explicit size above it is refused, unless the shard itself is below it).
///
/// Throws PlanRefused (naming the bytes needed) where not even `least_rows` fit the budget, or the explicit
/// size does not; std::invalid_argument for a negative size, a cap below `least_rows`, or an explicit size
/// above the cap.
ChunkPlan plan_chunks(const ChunkRequest& request);

/// Where results are copied behind the launches, nothing hides the copy of the last chunk: runs that chunk as
/// two halves, so that only half as much is left to copy. Does nothing to a plan of fewer than two chunks, or
/// where the last is at most half a chunk.
void halve_last_chunk(ChunkPlan& plan, std::int64_t rows);

}  // namespace shardwise
