#include "shardwise/dispatch/lane_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/floor.hpp"

namespace shardwise {

namespace {

Weights weights_of(const DeviceSet& devices, const SplitOptions& options, const std::string& operation,
                   const std::vector<bool>& gone) {
  try {
    // Equal devices get equal shares; unlike host devices get shares by their threads.
    std::vector<double> shares = options.weights;
    for (int d = 0; d < devices.size() && options.weights.empty(); ++d)
      shares.push_back(devices[d].info().threads);
    const Weights given = Weights::from(shares, static_cast<std::size_t>(devices.size()));
    if (std::find(gone.begin(), gone.end(), true) == gone.end()) return given;
    for (std::size_t d = 0; d < gone.size(); ++d)
      if (gone[d]) shares[d] = 0;
    if (std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; }))
      shares.front() = 1;
    return Weights::from(shares, shares.size());
  } catch (const std::invalid_argument& error) {
    throw_usage(operation + ": " + error.what());
  }
}

void report_device_entries(const DeviceSet& devices, DispatchReport& report) {
  for (int d = 0; d < devices.size(); ++d) {
    DeviceReport entry;
    entry.name = devices[d].name();
    entry.kind = to_string(devices[d].kind());
    report.devices.push_back(entry);
  }
}

}  // namespace

LanePlan plan_lanes(const DeviceSet& devices, Window window, const SplitOptions& options,
                    const LaneCosts& costs, const std::vector<bool>& gone) {
  LanePlan plan;
  report_device_entries(devices, plan.report);
  const Weights weights = weights_of(devices, options, costs.operation, gone);
  for (const std::uint64_t weight : weights.values())
    plan.report.weights.push_back(static_cast<double>(weight));
  if (options.chunk_rows < 0)
    throw_usage(fmt::format("{}: chunk must not be negative (got {})", costs.operation, options.chunk_rows));

  const std::int64_t min_lanes =
      options.min_rows_per_device < 0 ? kMinRowsPerDevice : options.min_rows_per_device;
  const std::int64_t granule = min_lanes == 0 ? 1 : kLaneGranule;
  // A chunk size or a budget is honoured at every size: it outranks the floor.
  const bool chunked = options.chunk_rows > 0 || options.memory_bytes > 0;
  const FloorDecision decision =
      apply_floor(split_lanes(window, weights, granule),
                  chunked ? 0 : lane_floor(min_lanes, costs.partial_bytes), "lanes");
  plan.report.mode = chunked ? "chunked" : decision.on_master_alone ? "master" : "sharded";
  plan.report.reason = devices.size() == 1 ? "one device" : decision.reason;

  for (const Shard& shard : decision.shards) {
    Device& device = devices[shard.device];
    ChunkRequest request;
    request.rows = shard.window.count;
    request.explicit_chunk = options.chunk_rows;
    request.budget_bytes = options.memory_bytes;
    request.free_bytes = options.memory_bytes == 0 ? device.free_memory() : 0;
    request.row_bytes = costs.lane_bytes;
    request.fixed_bytes = costs.fixed_bytes(shard.device, shard.window);
    request.resident_chunks = costs.resident_chunks;
    request.least_rows = std::min<std::int64_t>(kLeastLanes, std::max<std::int64_t>(shard.window.count, 1));
    request.cap_rows = costs.cap_lanes;
    request.cap_reason = costs.cap_reason;
    request.unit = "lanes";
    request.device = device.name();
    try {
      plan.shards.push_back({shard.device, shard.window, plan_chunks(request)});
    } catch (const PlanRefused& refused) {
      throw Error(ErrorClass::budget, costs.operation + ": " + refused.what());
    } catch (const std::invalid_argument& error) {
      throw_usage(costs.operation + ": " + error.what());
    }
    plan.report.devices[static_cast<std::size_t>(shard.device)].lanes = shard.window.count;
  }

  // The report's plan is the first shard's: like devices have like plans.
  if (!plan.shards.empty()) {
    const ChunkPlan& first = plan.shards.front().plan;
    plan.report.source = to_string(first.source);
    plan.report.row_bytes = first.row_bytes;
    plan.report.budget_bytes = first.budget_bytes;
    plan.report.fixed_bytes = first.fixed_bytes;
    plan.report.resident_chunks = first.resident_chunks;
    plan.report.chunk_rows = first.chunk_rows;
    for (const LaneShard& shard : plan.shards) plan.report.chunk_count += shard.plan.chunk_count;
  }
  // A master without lanes still merges.
  if (plan.shards.empty() || plan.shards.front().device != 0) {
    const std::uint64_t needed = costs.fixed_bytes(0, Window{window.begin, 0});
    if (options.memory_bytes > 0 && needed > options.memory_bytes)
      throw Error(ErrorClass::budget,
                  fmt::format("{}: {} needs {} bytes to merge the result, the budget is {} bytes; raise "
                              "--memory or use larger cells",
                              costs.operation, devices[0].name(), needed, options.memory_bytes));
  }
  return plan;
}

}  // namespace shardwise
