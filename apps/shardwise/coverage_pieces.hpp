#pragma once
// Coverage in pieces: windows of lanes, checkpoints, and passes that are added until an error is met.

#include <optional>

#include "coverage_report.hpp"
#include "coverage_run.hpp"
#include "partial_file.hpp"

namespace shardwise::program {

/// Runs the lanes of the request that `state` does not hold yet, adds them to it, and makes the map.
///
/// Checkpoints: the lanes go in calls of about a quarter of the interval; after the first, and then whenever
/// the interval has passed, and at the end, `state` is written to the checkpoint by rename. A signal is the
/// end, too: it is written before the error of the signal goes on.
///
/// --target-error e: where r = 10^(e / 10) - 1 is below the median of standard error / gain over the cells
/// with at least 16 crossings, P passes become P' = ceil(P (median / r)^2), at least P + 1, at most 4 P and
/// `most_passes`, of the same rays each: the map is that of --passes P' --samples (P' x rays a pass). All of
/// this depends on the exact sums alone. `request.options` has the passes and samples in the end, `*target`
/// what was met.
CoverageRun run_pieces(CoverageRunner& runner, CoverageRequest& request, PartialFile& state,
                       std::optional<TargetError>* target);

/// --target-error adds passes up to this many.
constexpr int most_passes = 1024;

/// The median (the lower one of two) of 10 log10(1 + standard error / gain) over the cells with at least 16
/// crossings; none: there is no such cell.
std::optional<double> median_error_db(const CoverageResult& result);

}  // namespace shardwise::program
