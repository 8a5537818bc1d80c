#pragma once
// `solve` on several ranks: one part and one device each, inputs read by the first and given to all.

#include <optional>

#include "npy.hpp"
#include "solve_run.hpp"

namespace shardwise::program {

/// An array that rank 0 reads, on all ranks.
NpyArray read_npy_on_ranks(const std::string& path);
/// A state that rank 0 has (or has not), on all ranks.
std::optional<SolveState> share_state(const std::optional<SolveState>& state);

/// Refuses, alike on all ranks, what several ranks cannot do: another number of parts than ranks, --backend
/// serial or local.
void check_rank_request(const SolveRequest& request, const std::string& backend);
/// The blocks of a request on the ranks of this program.
Blocks solve_rank_blocks(const SolveRequest& request, const DeviceSet& devices);

/// Whether any rank was asked to stop. Collective, where there are several.
bool stop_on_any_rank();

/// One entry a rank, on rank 0: its part, cells, device, seconds, bytes. Collective.
Json gather_solve_reports(const SolveRequest& request, const Blocks& blocks, const DeviceSet& devices,
                          const SolveOutcome& outcome);
/// The table of those for people: what a rank has, waited for, and sends in one exchange.
std::string solve_rank_table(const Json& reports);

}  // namespace shardwise::program
