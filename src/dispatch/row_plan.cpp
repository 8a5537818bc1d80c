#include "dispatch/row_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dispatch/reachable.hpp"
#include "runtime/packed_memory.hpp"
#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/floor.hpp"

namespace shardwise {

namespace {

/// A call is taken off one device only where that is clearly predicted to win: predictions err by a few
/// percent.
constexpr double clear_win = 0.92;
/// The first direct call is predicted with costs that are too high rather than too low: it is tried where
/// even so nothing is lost.
constexpr double cautious_win = 1.0;
/// What a call on several devices is taken to cost above its slowest device until that was measured. Direct
/// ones have a launch a device and nothing else to wait for.
constexpr double unmeasured_fixed_s = 150e-6, unmeasured_direct_s = 80e-6;
/// A chunk with fewer bytes for the host is copied in about the time that one launch more costs.
constexpr std::uint64_t least_halved_bytes = 16 << 20;
constexpr int slots_per_device = 3;  // one coming in, one computing, one going out

struct Planner {
  const DeviceSet& devices;
  const RowOperation& operation;
  const RowSource& source;
  const RowSink& sink;
  const RowOptions& options;
  const LearnedCost* learned;
  const RowsLeft& left;
  std::int64_t held_rows = 0;  ///< of the whole batch, which lie where they lie
  RowPlan plan;
  std::vector<double> weights;  ///< what the caller asked for; empty: free
  bool may_be_direct = false;   ///< as far as source and sink go

  std::uint64_t in_bytes() const { return row_bytes(operation.inputs); }
  std::uint64_t out_bytes() const { return row_bytes(operation.outputs); }
  bool is_chunked() const {
    return options.chunk_rows > 0 || options.memory_bytes > 0 || sink.kind == SinkKind::offload;
  }
  bool reads_host_memory(int device) const { return devices[device].kind() == PlatformKind::host; }
  bool sends_in(int device, bool direct) const {
    switch (source.kind) {
      case SourceKind::on_master:
        return device != 0 && !direct;
      case SourceKind::on_host:
        return !reads_host_memory(device);
      default:
        return false;
    }
  }
  bool sends_out(int device, bool direct) const {
    switch (sink.kind) {
      case SinkKind::to_master:
        return device != 0 && !direct;
      case SinkKind::to_host:
        return !reads_host_memory(device);
      case SinkKind::offload:
        return sink.offload_host ? !reads_host_memory(device) : device != 0;
      default:
        return false;
    }
  }

  bool direct_possible() const { return may_be_direct && all_reachable(devices, source, sink); }
  std::int64_t floor() const;
  std::vector<double> above_floor(std::vector<double> split) const;
  std::vector<DeviceRowCost> costs() const;
  double fixed(DispatchMode mode) const;
  bool fixed_is_known(DispatchMode mode) const {
    return learned && learned->fixed_s[static_cast<std::size_t>(mode)] >= 0;
  }
  void resolve_weights();
  void choose();
  void choose_between(const std::vector<DeviceRowCost>& cost);
  void use(DispatchMode mode, std::vector<double> split, double predicted_s, std::string reason);
  void make_shards();
  void make_chunks();
  void halve_last_chunks();
  ChunkRequest chunk_request(const RowShard& shard) const;
  void report();
};

/// The learned costs; unknown devices are taken to be as fast as the mean of the known ones.
std::vector<DeviceRowCost> Planner::costs() const {
  if (!learned) return {};
  std::vector<DeviceRowCost> result = learned->devices;
  double sum = 0;
  int known = 0;
  for (const DeviceRowCost& cost : result)
    if (cost.compute_s > 0) sum += cost.compute_s, ++known;
  if (known == 0) return {};
  double in_s = 0, out_s = 0;
  for (const DeviceRowCost& cost : result) {
    in_s = std::max(in_s, cost.in_s);
    out_s = std::max(out_s, cost.out_s);
  }
  for (std::size_t d = 0; d < result.size(); ++d) {
    DeviceRowCost& cost = result[d];
    if (cost.compute_s == 0) cost.compute_s = sum / known;
    if (cost.in_s == 0 && sends_in(static_cast<int>(d), false)) cost.in_s = in_s;
    if (cost.out_s == 0 && sends_out(static_cast<int>(d), false)) cost.out_s = out_s;
  }
  return result;
}

/// Of a remote shard.
std::int64_t Planner::floor() const {
  // A chunk size, a budget and a mode that was asked for are honoured at every size.
  if (is_chunked() || options.mode != DispatchMode::automatic) return 0;
  const int remote = 1 % devices.size();
  const std::uint64_t moved =
      (sends_in(remote, false) ? in_bytes() : 0) + (sends_out(remote, false) ? out_bytes() : 0);
  return row_floor(options.min_rows_per_device < 0 ? kMinRowsPerDevice : options.min_rows_per_device, moved);
}

/// The split with remote shards below the floor raised to it, so that a split that moves by a percent from
/// call to call does not fall off the floor; as it is where the rows do not suffice.
std::vector<double> Planner::above_floor(std::vector<double> split) const {
  const std::int64_t least = floor();
  double sum = 0, raised = 0, free = 0;
  for (const double weight : split) sum += weight;
  for (std::size_t d = 0; d < split.size(); ++d) {
    split[d] *= static_cast<double>(plan.rows) / sum;  // in rows
    if (d > 0 && split[d] > 0 && split[d] < static_cast<double>(least))
      raised += split[d] = static_cast<double>(least + 1);
    else
      free += split[d];
  }
  const double left = static_cast<double>(plan.rows) - raised;
  if (raised == 0 || left <= 0 || free == 0) return split;
  for (std::size_t d = 0; d < split.size(); ++d)
    if (split[d] != static_cast<double>(least + 1)) split[d] *= left / free;
  return split;
}

double Planner::fixed(DispatchMode mode) const {
  const double known = learned ? learned->fixed_s[static_cast<std::size_t>(mode)] : -1;
  if (known >= 0) return known;
  return mode == DispatchMode::master   ? 0
         : mode == DispatchMode::direct ? unmeasured_direct_s
                                        : unmeasured_fixed_s;
}

void Planner::resolve_weights() {
  const auto& by_operation = options.operation_weights;
  for (const auto& entry : by_operation) require_operation(entry.first, operation.name + ": weights");
  weights = options.weights;
  if (weights.empty()) {
    auto found = by_operation.find(operation.name);
    if (found == by_operation.end()) found = by_operation.find(operation.family);
    if (found != by_operation.end()) weights = found->second;
  }
  if (weights.empty()) return;
  try {
    Weights::from(weights, static_cast<std::size_t>(devices.size()));
  } catch (const std::invalid_argument& error) {
    throw_usage(operation.name + ": " + error.what());
  }
}

void Planner::use(DispatchMode mode, std::vector<double> split, double predicted_s, std::string reason) {
  for (std::size_t d = 0; d < left.gone.size() && source.kind != SourceKind::resident; ++d)
    if (left.gone[d]) split[d] = 0;
  if (std::all_of(split.begin(), split.end(), [](double weight) { return weight == 0; })) split.front() = 1;
  plan.mode = mode;
  plan.report.predicted_s = predicted_s;
  plan.report.reason = std::move(reason);
  plan.report.weights = std::move(split);
}

/// Costs are known and the mode is free.
void Planner::choose_between(const std::vector<DeviceRowCost>& cost) {
  const auto predict = [&](DispatchMode mode, Overlap overlap) {
    const double fixed_s = fixed(mode);
    const std::vector<double> split =
        weights.empty()
            ? above_floor(
                  predict_best_split(plan.rows, cost, overlap, options.chunks_per_device, fixed_s).weights)
            : weights;
    return predict_split(plan.rows, cost, split, overlap, options.chunks_per_device, fixed_s);
  };
  DispatchMode mode = DispatchMode::pipelined;
  Prediction best = predict(mode, Overlap::pipelined);
  const double pipelined_s = best.seconds;
  double direct_s = -1, win = clear_win;
  const Prediction master = predict_master(plan.rows, cost, fixed(DispatchMode::master));
  if (may_be_direct) {
    const Prediction direct = predict(DispatchMode::direct, Overlap::direct);
    direct_s = direct.seconds;
    const double direct_win = fixed_is_known(DispatchMode::direct) ? clear_win : cautious_win;
    // Host devices share their memory: there are no copies that launches could overlap, only more launches.
    const bool shares = devices.master().kind() == PlatformKind::host;
    // Asked last: whether memory is reachable takes the driver microseconds to say.
    if ((shares || (direct.seconds <= best.seconds &&
                    (!weights.empty() || direct.seconds <= direct_win * master.seconds))) &&
        direct_possible()) {
      best = direct;
      mode = DispatchMode::direct;
      win = direct_win;
    }
  }
  const bool is_free = weights.empty(), none_wins = is_free && best.seconds > win * master.seconds;
  if (none_wins)
    use(DispatchMode::master, master.weights, master.seconds, {});
  else
    use(mode, is_free ? best.weights : weights, best.seconds, {});
  plan.reason = [=, master_s = master.seconds] {
    std::string times = fmt::format("pipelined {:.3g} ms", pipelined_s * 1e3);
    if (direct_s >= 0) times += fmt::format(", direct {:.3g} ms", direct_s * 1e3);
    if (is_free) times += fmt::format(", master {:.3g} ms", master_s * 1e3);
    return (none_wins ? "no clear win over the master alone is predicted (" : "predicted best (") + times +
           ")";
  };
}

void Planner::choose() {
  const int count = devices.size();
  std::vector<double> equal;  // by threads, which are 1 but for unlike host devices
  for (int d = 0; d < count; ++d) equal.push_back(devices[d].info().threads);
  const std::vector<DeviceRowCost> cost = costs();
  const bool known = is_known(cost);
  std::vector<double> split = weights;
  if (split.empty())
    split =
        known ? predict_best_split(plan.rows, cost, Overlap::pipelined, options.chunks_per_device, 0).weights
              : equal;
  const auto seconds = [&](DispatchMode mode, Overlap overlap) {
    return known ? predict_split(plan.rows, cost, split, overlap, options.chunks_per_device, fixed(mode))
                       .seconds
                 : 0.0;
  };

  if (source.kind == SourceKind::resident) {
    // The rows lie where they lie.
    std::vector<double> lying(static_cast<std::size_t>(count), 0.0);
    for (const RowBlock& block : source.table->blocks)
      lying[static_cast<std::size_t>(block.device)] += static_cast<double>(block.window.count);
    if (plan.rows == 0) lying.front() = 1;
    return use(is_chunked() ? DispatchMode::chunked : DispatchMode::sharded, lying, 0,
               "rows stay on the devices that hold them");
  }
  if (is_chunked()) {
    const char* why = options.chunk_rows > 0     ? "a chunk size was given"
                      : options.memory_bytes > 0 ? "a memory budget was given"
                                                 : "results are offloaded chunk by chunk";
    return use(DispatchMode::chunked, split, seconds(DispatchMode::chunked, Overlap::pipelined), why);
  }
  switch (options.mode) {
    case DispatchMode::automatic:
      break;
    case DispatchMode::direct:
      if (!direct_possible())
        throw_usage(operation.name +
                    ": mode 'direct' needs rows in the master's memory and peer access between all devices; "
                    "use 'pipelined'");
      return use(options.mode, split, seconds(options.mode, Overlap::direct), "asked for");
    case DispatchMode::master: {
      std::vector<double> master(static_cast<std::size_t>(count), 0.0);
      master.front() = 1;
      return use(options.mode, master,
                 known ? predict_master(plan.rows, cost, fixed(options.mode)).seconds : 0, "asked for");
    }
    case DispatchMode::chunked:
      throw_usage(operation.name + ": mode 'chunked' needs a chunk size or a memory budget");
    case DispatchMode::pipelined:
      return use(options.mode, split, seconds(options.mode, Overlap::pipelined), "asked for");
    case DispatchMode::sharded:
      return use(options.mode, split, seconds(options.mode, Overlap::none), "asked for");
  }
  if (count == 1) {
    const bool moves = sends_in(0, false) || sends_out(0, false);
    return use(moves ? DispatchMode::pipelined : DispatchMode::master, {1.0}, 0, "one device");
  }
  if (known) return choose_between(cost);
  const bool direct = devices.master().kind() == PlatformKind::host && direct_possible();
  use(direct ? DispatchMode::direct : DispatchMode::pipelined, split, 0,
      direct ? "host devices share their memory" : "first call of this kind: nothing measured yet");
}

void Planner::make_shards() {
  if (source.kind == SourceKind::resident) {
    for (const RowBlock& block : source.table->blocks)
      if (!block.window.empty()) plan.shards.push_back({block.device, block.window, {}, false, false});
    std::stable_sort(plan.shards.begin(), plan.shards.end(),
                     [](const RowShard& a, const RowShard& b) { return a.device < b.device; });
    if (plan.shards.empty()) plan.shards.push_back({0, Window{0, 0}, {}, false, false});
  } else {
    const Weights whole = Weights::from(plan.report.weights, static_cast<std::size_t>(devices.size()));
    FloorDecision decision;
    decision = apply_floor(split_rows(plan.rows, whole), floor(), "rows");
    if (!decision.kept) {
      plan.mode = DispatchMode::master;
      plan.report.reason = decision.reason;
      plan.reason = nullptr;
      plan.report.predicted_s = 0;
    }
    for (const Shard& shard : decision.shards)
      plan.shards.push_back({shard.device, shard.window, {}, false, false});
    if (plan.shards.empty()) plan.shards.push_back({0, Window{0, 0}, {}, false, false});
  }
  const bool direct = plan.mode == DispatchMode::direct;
  for (RowShard& shard : plan.shards) {
    shard.sends_in = sends_in(shard.device, direct);
    shard.sends_out = sends_out(shard.device, direct);
  }
  const bool master_only = plan.shards.size() == 1 && plan.shards.front().device == 0 &&
                           !plan.shards.front().sends_in && !plan.shards.front().sends_out;
  const bool plain = (source.kind == SourceKind::on_master || source.kind == SourceKind::on_host) &&
                     (sink.kind == SinkKind::to_master || sink.kind == SinkKind::to_host);
  if (master_only && plain && plan.mode != DispatchMode::chunked) {
    plan.alone = true;
    plan.mode = DispatchMode::master;
  }
}

ChunkRequest Planner::chunk_request(const RowShard& shard) const {
  ChunkRequest request;
  request.rows = shard.window.count;
  request.explicit_chunk = options.chunk_rows;
  request.budget_bytes = options.memory_bytes;
  request.device = devices[shard.device].name();
  request.resident_chunks = slots_per_device;
  const bool keeps_in_slot = shard.sends_in || source.kind == SourceKind::generated;
  const bool keeps_out_slot =
      shard.sends_out || sink.kind == SinkKind::offload || sink.kind == SinkKind::reduce;
  request.row_bytes = (keeps_in_slot ? in_bytes() : 0) + (keeps_out_slot ? out_bytes() : 0);
  // On the master lie the caller's rows and results, and what it hands on of the others' chunks.
  const auto all = static_cast<std::uint64_t>(held_rows);
  const auto mine = static_cast<std::uint64_t>(shard.window.count);
  if (shard.device == 0) {
    if (source.kind == SourceKind::on_master) request.fixed_bytes += all * in_bytes();
    if (sink.kind == SinkKind::to_master) request.fixed_bytes += all * out_bytes();
    if (sink.kind == SinkKind::offload && !sink.offload_host)
      request.row_bytes += static_cast<std::uint64_t>(devices.size() - 1) * out_bytes();
  }
  if (source.kind == SourceKind::resident) request.fixed_bytes += mine * in_bytes();
  if (sink.kind == SinkKind::resident) request.fixed_bytes += mine * out_bytes();
  if (sink.kind == SinkKind::reduce)
    request.fixed_bytes += sink.reducer.partial_bytes * (shard.device == 0 && devices.size() > 1 ? 2 : 1);
  // Each column of a chunk, and of the result, starts at a multiple of the alignment; so do the counters, a
  // partial result, and the columns of what the master hands on.
  std::uint64_t columns = (slots_per_device + 1) * (operation.inputs.size() + operation.outputs.size()) + 1;
  if (shard.device == 0 && sink.kind == SinkKind::offload && !sink.offload_host)
    columns += slots_per_device * static_cast<std::uint64_t>(devices.size() - 1) * operation.outputs.size();
  request.fixed_bytes += sizeof(RowCounters) + PackedMemory::alignment * columns;
  if (options.memory_bytes == 0 && options.chunk_rows == 0 && request.row_bytes > 0)
    request.free_bytes = devices[shard.device].free_memory_if_below(
        (request.fixed_bytes + request.row_bytes * static_cast<std::uint64_t>(request.rows)) / kFreePercent *
            100 +
        200);
  return request;
}

void Planner::make_chunks() {
  for (RowShard& shard : plan.shards) {
    try {
      shard.chunks = plan_chunks(chunk_request(shard));
    } catch (const PlanRefused& refused) {
      throw Error(ErrorClass::budget, operation.name + ": " + refused.what());
    } catch (const std::invalid_argument& error) {
      throw_usage(operation.name + ": " + error.what());
    }
    if (shard.chunks.chunk_count > 1 && plan.mode != DispatchMode::chunked) {
      plan.mode = DispatchMode::chunked;
      plan.report.reason = shard.chunks.reason;
      plan.reason = nullptr;
    }
  }
  // A master that computes nothing still holds what it holds.
  if (plan.shards.front().device != 0 && options.memory_bytes > 0) {
    RowShard master;
    ChunkRequest request = chunk_request(master);
    if (request.fixed_bytes > options.memory_bytes)
      throw Error(
          ErrorClass::budget,
          fmt::format("{}: {} needs {} bytes for the rows and results, the budget is {} bytes; keep them "
                      "on the host or offload them",
                      operation.name, devices[0].name(), request.fixed_bytes, options.memory_bytes));
  }
  if (plan.mode == DispatchMode::pipelined)
    for (RowShard& shard : plan.shards) {
      if (!shard.sends_in && !shard.sends_out) continue;
      const std::int64_t pieces = std::max(1, options.chunks_per_device);
      ChunkPlan& chunks = shard.chunks;
      chunks.chunk_rows = std::max<std::int64_t>(1, (shard.window.count + pieces - 1) / pieces);
      chunks.chunk_count = (shard.window.count + chunks.chunk_rows - 1) / chunks.chunk_rows;
      chunks.resident_chunks =
          static_cast<int>(std::clamp<std::int64_t>(chunks.chunk_count, 1, slots_per_device));
      chunks.reason = fmt::format("{} chunks a device overlap copies and launches", pieces);
    }
  if (sink.kind != SinkKind::offload) return;
  // The master keeps room for one chunk of every device at a time: the smallest is everybody's.
  std::int64_t least = plan.rows;
  for (const RowShard& shard : plan.shards)
    least = std::min(least, std::max<std::int64_t>(1, shard.chunks.chunk_rows));
  // Without a size or a budget: pieces that a hook can work on while the next is computed.
  if (options.chunk_rows == 0 && options.memory_bytes == 0)
    for (const RowShard& shard : plan.shards)
      least = std::min(least, std::max<std::int64_t>(1, (shard.window.count + 3) / 4));
  for (RowShard& shard : plan.shards) {
    shard.chunks.chunk_rows = std::max<std::int64_t>(1, least);
    shard.chunks.chunk_count = (shard.window.count + shard.chunks.chunk_rows - 1) / shard.chunks.chunk_rows;
    shard.chunks.resident_chunks =
        static_cast<int>(std::clamp<std::int64_t>(shard.chunks.chunk_count, 1, slots_per_device));
  }
  plan.shared = weights.empty() && plan.shards.size() > 1 && source.kind != SourceKind::resident;
}

/// The way to the host is slow enough that the last copy shows.
void Planner::halve_last_chunks() {
  if (plan.shared || !(sink.kind == SinkKind::to_host || sink.offload_host)) return;
  for (RowShard& shard : plan.shards)
    if (shard.sends_out &&
        static_cast<std::uint64_t>(shard.chunks.chunk_rows) * out_bytes() >= least_halved_bytes)
      halve_last_chunk(shard.chunks, shard.window.count);
}

void Planner::report() {
  DispatchReport& out = plan.report;
  out.mode = to_string(plan.mode);
  for (int d = 0; d < devices.size(); ++d) {
    DeviceReport entry;
    entry.name = devices[d].name();
    entry.kind = to_string(devices[d].kind());
    out.devices.push_back(entry);
  }
  const std::vector<DeviceRowCost> cost = costs();
  for (const RowShard& shard : plan.shards) {
    DeviceReport& entry = out.devices[static_cast<std::size_t>(shard.device)];
    entry.lanes += shard.window.count;
    if (cost.empty()) continue;
    const DeviceRowCost& known = cost[static_cast<std::size_t>(shard.device)];
    const bool direct = plan.mode == DispatchMode::direct && shard.device != 0 && known.direct_s > 0;
    entry.predicted_s = static_cast<double>(shard.window.count) * (direct ? known.direct_s : known.compute_s);
  }
  const ChunkPlan& first = plan.shards.front().chunks;
  out.source = to_string(first.source);
  out.row_bytes = first.row_bytes;
  out.budget_bytes = first.budget_bytes;
  out.fixed_bytes = first.fixed_bytes;
  out.resident_chunks = first.resident_chunks;
  out.chunk_rows = first.chunk_rows;
  for (const RowShard& shard : plan.shards) out.chunk_count += shard.chunks.chunk_count;
}

}  // namespace

std::uint64_t row_bytes(const std::vector<RowColumn>& columns) {
  std::uint64_t bytes = 0;
  for (const RowColumn& column : columns) bytes += column.row_bytes;
  return bytes;
}

std::string cost_key(const RowOperation& operation, const RowSource& source, const RowSink& sink) {
  return fmt::format("{} {} {}", operation.name, to_string(source.kind), to_string(sink.kind));
}

RowPlan plan_rows(const DeviceSet& devices, const RowOperation& operation, const RowSource& source,
                  const RowSink& sink, const RowOptions& options, const LearnedCost* learned,
                  const RowsLeft& left) {
  Planner planner{devices, operation, source, sink, options, learned, left, 0, {}, {}, false};
  planner.held_rows = checked_rows(operation, source, sink, devices);
  planner.plan.rows = left.rows < 0 ? planner.held_rows : left.rows;
  if (options.chunk_rows < 0)
    throw_usage(fmt::format("{}: chunk must not be negative (got {})", operation.name, options.chunk_rows));
  if (options.chunks_per_device < 1)
    throw_usage(fmt::format("{}: chunks_per_device must be at least 1 (got {})", operation.name,
                            options.chunks_per_device));
  planner.may_be_direct =
      (source.kind == SourceKind::on_master || source.kind == SourceKind::generated) &&
      (sink.kind == SinkKind::to_master || sink.kind == SinkKind::resident || sink.kind == SinkKind::reduce);
  planner.resolve_weights();
  planner.choose();
  planner.make_shards();
  planner.make_chunks();
  planner.halve_last_chunks();
  planner.report();
  return std::move(planner.plan);
}

}  // namespace shardwise
