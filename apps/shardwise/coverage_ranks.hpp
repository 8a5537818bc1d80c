#pragma once
// `coverage` on several ranks. Rank 0 runs the command; the others serve it: for each piece of lanes that it
// announces they compute their share, until it says that there is no other.

#include "coverage_run.hpp"
#include "report_file.hpp"
#include "scene_options.hpp"

namespace shardwise::program {

/// Rank 0 reads the scene and sends what it has read to the others. Collective.
SceneModel load_scene_together(const std::string& path, const SceneFileOptions& options,
                               std::vector<std::string>* remarks);

/// Rank 0: one piece, the `call.lane_count` lanes (at least one) from `call.lane_offset` on, on all ranks.
/// The result is that of all of it, sums or a map as `call.sums` says, with this rank's own report.
CoverageRun run_piece_on_ranks(CoverageRunner& runner, const CoverageOptions& call,
                               const ProgressFunction& progress);

/// The other ranks: what rank 0 announces, until it says that it is over. Returns what this rank did.
DispatchReport serve_pieces(CoverageRunner& runner, const CoverageOptions& options);

/// Rank 0: there is no other piece.
void end_pieces();

/// What each rank did, for the report of rank 0 (elsewhere null). Collective.
Json gather_coverage_reports(const DispatchReport& mine, const std::string& transport);

/// The report of all calls together.
void add_dispatch(DispatchReport& total, const DispatchReport& call);

}  // namespace shardwise::program
