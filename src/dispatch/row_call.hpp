#pragma once
// One call on rows over several devices, or in chunks: memory, graph, hooks, result.
//
// With OnDeviceFailure::failover a call is a series of attempts. Each runs the rows that no earlier one has
// delivered, on the devices that are left; what was delivered stays. A chunk is delivered when its results
// are where they belong (a hook: when it returned) and its counters are on the host. An attempt's rows are
// numbered from 0 and mapped to the windows that are left, so plans know nothing of all this.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dispatch/call_stamps.hpp"
#include "dispatch/kept_counters.hpp"
#include "dispatch/row_plan.hpp"
#include "runtime/packed_memory.hpp"
#include "shardwise/dispatch/executor.hpp"

namespace shardwise {

class RowCall {
 public:
  RowCall(Executor& executor, LearnedCosts& learned, CounterStore& kept, RowOperation operation,
          RowSource source, RowSink sink, const RowOptions& options, RowPlan plan);
  RowCall(const RowCall&) = delete;
  RowCall& operator=(const RowCall&) = delete;

  /// Enqueues the call. Runs it to its end where the sink hands chunks out, or fills host memory.
  void launch();
  /// After launch(): once these are signalled, nothing of the call runs any more.
  std::vector<Event> ends() const;
  /// The result, or the call's error.
  RowResult finish();
  /// After launch(): see Run.
  bool exit_edge_lost() const { return run_.exit_edge_lost(); }
  std::string exit_edge_error() const { return run_.exit_edge_error(); }
  CallStamps& stamps() { return stamps_; }

 private:
  using ColumnPointers = std::vector<void*>;

  /// Device memory for one chunk on its way.
  struct Slot {
    PackedMemory memory;
    std::vector<PackedArray<std::byte>> inputs, outputs;  ///< by column
  };
  /// Where an offloaded chunk lies for its hook, if not in the slot itself.
  struct HookSlot {
    PackedMemory memory;
    std::vector<PackedArray<std::byte>> outputs;
    std::shared_ptr<void> host;
    ResourceId host_resource = 0;
    ColumnPointers columns;
  };
  struct OnDevice {
    int device = 0;
    RowShard shard;
    std::int64_t done = 0;  ///< rows of the shard that were enqueued
    std::int64_t rows = 0;  ///< in all
    int chunks = 0;
    std::vector<Slot> slots;
    std::vector<HookSlot> hook_slots;
    KeptCounters* kept = nullptr;  ///< null: the counters are in `sums`
    PackedMemory sums;             ///< counters, and the partial result; cleared together
    PackedArray<RowCounters> counters;
    PackedArray<std::byte> partial;
    std::vector<int> launches, copies_in, copies_out;  ///< nodes
    const RowBlock* resident_in = nullptr;
    int last_taken = -1;  ///< in taken_
  };
  /// A chunk that was enqueued in a call with failover.
  struct Taken {
    Window window;
    int device = 0;
    int deliver = -1, counted = -1;  ///< nodes
    int before = -1;         ///< the chunk before it on its device, in taken_: counters are running sums
    RowCounters counters{};  ///< the device's, up to this chunk
    bool hooked = false;     ///< its hook has returned
  };
  struct InFlight {
    int node;
    RowChunk chunk;
    int taken = -1;
  };

  static RowCounters* counters_of(const OnDevice& on) {
    return on.kept ? on.kept->data() : on.sums.data(on.counters);
  }
  static Access counters_access(const OnDevice& on, AccessMode mode) {
    if (!on.kept) return on.sums.access(mode, on.counters);
    return mode == AccessMode::read ? on.kept->reads() : on.kept->accumulates();
  }
  Stream& caller(int device) const { return *context_.streams[static_cast<std::size_t>(device)]; }
  /// Whether this call's operations are timed: the first and the third of a kind, then one in eight. The
  /// events cost microseconds, and figures that are smoothed over calls need no more.
  bool is_sampled() const;
  bool is_stepwise() const { return sink_.kind == SinkKind::offload || plan_.shared; }
  /// Whether every device has one chunk: then nothing of one depends on another's launch.
  bool is_one_round() const;
  bool keeps(const RowColumn& column) const { return column.row_bytes > 0; }

  /// Enqueues the rows of `pieces_`, and runs them to their end where the sink or failover wants that.
  void attempt();
  void allocate();
  void allocate_table();
  bool allocate_on(int device, const std::function<void()>& function);
  // Failover (row_failover.cpp).
  void take_callers_streams();
  void run_with_failover();
  void add_snapshot(OnDevice& on, Taken& taken);
  bool is_delivered(const Taken& taken) const;
  void note_delivered();
  std::vector<Window> missing() const;
  Window real_window(Window numbered) const;
  void sum_delivered(RowResult& result) const;
  void allocate_device(OnDevice& on);
  void fill_slot(OnDevice& on, Slot& slot) const;
  void fill_hook_slot(OnDevice& on, HookSlot& slot) const;

  void begin(OnDevice& on);
  std::optional<Window> next_window(OnDevice& on);
  /// A chunk while its operations are added: inputs, then the launch, then what becomes of the results.
  struct Chunk {
    OnDevice* on;
    Window window;
    Slot* slot;
    RowLaunch launch;
    AccessList accesses;
    int taken = -1;
  };
  Chunk take_chunk(OnDevice& on, Window window);
  void add_inputs(Chunk& chunk);
  InFlight add_rest(Chunk& chunk);
  void place_outputs(Chunk& chunk);
  int deliver(const Chunk& chunk, int launched, RowChunk& results);
  Access table_access(const RowBlock& block, Window window) const;
  void add_reduction();
  void add_counters();

  /// Gives the streams what was added to the graph so far.
  void hand_over();
  void run_all();
  void run_stepwise();
  void release();
  void learn_from(RowResult& result);
  /// That a timed node took on its device; 0 where it was not timed.
  double seconds_of(int node) const;
  void level_first(std::vector<DeviceSample>& samples) const;

  Executor& executor_;
  LearnedCosts& learned_;
  CounterStore& kept_;
  RowOperation operation_;
  /// RowOperation::launch, which every chunk's operation shares.
  std::shared_ptr<const std::function<void(LaunchContext&, const RowLaunch&)>> body_;
  RowSource source_;
  RowSink sink_;
  RowOptions options_;
  ExecutionContext context_;
  RowPlan plan_;
  std::string key_;
  std::int64_t rows_ = 0;  ///< of the whole call

  bool failover_ = false;
  bool is_final_ = false;       ///< error_ is none of a device that others can replace
  std::vector<Window> pieces_;  ///< rows of this attempt, ascending
  std::vector<RunFailure> allocation_failures_;
  std::deque<Taken> taken_;                ///< of this attempt
  std::vector<Window> delivered_;          ///< of earlier attempts; not sorted
  std::vector<std::int64_t> device_rows_;  ///< delivered, by device
  RowCounters delivered_counters_{};
  std::vector<DeviceFailure> survived_;

  std::deque<OnDevice> states_;  ///< the working devices, ascending
  std::shared_ptr<RowTable> table_;
  ResourceId callers_output_ = 0;
  std::vector<Memory> incoming_;  ///< partials of other devices, on the master
  Memory master_partial_;         ///< where the master computes nothing
  bool sampled_ = true;
  std::shared_ptr<void> landing_;  ///< pinned: counters of every device, then the reduced result
  std::int64_t next_row_ = 0;      ///< of a shared plan
  std::vector<double> speed_;      ///< relative, of a shared plan

  Graph graph_;
  std::unique_ptr<Session> session_;
  Run run_;
  Event entered_, left_;
  std::vector<Event> freed_;  ///< on host and sim, where a stream frees when it gets there
  std::exception_ptr error_;
  CallStamps stamps_;
  LapClock clock_;
};

}  // namespace shardwise
