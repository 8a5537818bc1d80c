#include "shardwise/dispatch/rank_rows.hpp"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "dispatch/row_operation.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/split.hpp"

namespace shardwise {

double rank_weight(const DeviceSet& devices, const SplitOptions& options) {
  if (!options.weights.empty()) return std::accumulate(options.weights.begin(), options.weights.end(), 0.0);
  double threads = 0;
  for (int d = 0; d < devices.size(); ++d) threads += devices[d].info().threads;
  return threads;
}

Window rank_rows(Communicator& ranks, std::int64_t total, double weight) {
  std::vector<double> weights;
  for (const std::vector<std::byte>& bytes :
       ranks.gather_all(std::as_bytes(std::span(&weight, 1)), "rows: weights of the ranks"))
    std::memcpy(&weights.emplace_back(), bytes.data(), sizeof(double));
  try {
    for (const Shard& shard : split_rows(total, Weights::from(weights, weights.size())))
      if (shard.device == ranks.rank()) return shard.window;
  } catch (const std::invalid_argument& error) {
    throw_usage(fmt::format("rows of a rank: {}", error.what()));
  }
  return {total, 0};
}

RowSource rows_of(const RowSource& source, std::int64_t total, Window window) {
  if (window.begin < 0 || window.count < 0 || window.end() > total)
    throw_usage(fmt::format("rows of a rank: the window {} to {} is not inside the {} rows", window.begin,
                            window.end(), total));
  if (source.kind == SourceKind::resident)
    throw_usage(
        "rows of a rank: resident rows lie on this rank's devices already; give a batch of the caller's");
  RowSource part = source;
  for (std::size_t c = 0; c < part.columns.size(); ++c) {
    RowInput& column = part.columns[c];
    if (!column.given) continue;
    if (total == 0 || column.rows % total != 0)
      throw_usage(fmt::format(
          "rows of a rank: column {} has {} values for {} rows; give a whole number of values a row", c,
          column.rows, total));
    const std::int64_t slots = column.rows / total;
    column.data = static_cast<const std::byte*>(column.data) + window.begin * slots * column.row_bytes;
    column.rows = window.count * slots;
    column.given = column.rows > 0;  // as an empty span is not given
  }
  if (source.kind == SourceKind::generated) {
    if (source.generator.rows != total)
      throw_usage(
          fmt::format("rows of a rank: the generator makes {} rows, not {}", source.generator.rows, total));
    part.generator.rows = window.count;
    part.generator.make = [make = source.generator.make, first = window.begin](LaunchContext& context,
                                                                               const RowLaunch& launch) {
      RowLaunch whole = launch;
      whole.first_row += first;
      make(context, whole);
    };
  }
  return part;
}

GatheredRows to_rank0(Communicator& ranks, const RowResult& result) {
  if (!result.table)
    throw_usage(
        "rows to rank 0: the call left no table; offload and reduce hand their results over by themselves");
  const RowTable& table = *result.table;
  std::int64_t counts[] = {result.rows, result.rejected, result.flagged};
  ranks.sum_to(0, counts, "rows: counts");
  GatheredRows all;
  const bool here = ranks.rank() == 0;
  if (here) all.rows = counts[0], all.rejected = counts[1], all.flagged = counts[2];
  std::vector<std::byte> mine;
  for (std::size_t c = 0; c < table.row_bytes.size(); ++c) {
    mine.resize(static_cast<std::size_t>(table.rows) * table.row_bytes[c]);
    if (!mine.empty()) table.read(static_cast<int>(c), mine);
    std::vector<std::byte> column;
    for (const std::vector<std::byte>& bytes : ranks.gather(mine, 0, "rows: results"))
      column.insert(column.end(), bytes.begin(), bytes.end());
    if (here) all.columns.push_back(std::move(column));
  }
  return all;
}

}  // namespace shardwise
