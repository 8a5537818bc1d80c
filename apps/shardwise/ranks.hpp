#pragma once
// The program as a rank of a run that a launcher (mpirun, srun) started: every computing command runs on all
// ranks, rank 0 reads, writes and reports.
//
// Errors need no care: whatever one rank throws, main() has all ranks end with it, rank 0 saying what it was.
// Rank 0 writes its outputs after the last collective of a command, so what one rank cannot do leaves nothing
// behind.

#include <functional>
#include <optional>
#include <string>

#include "report_file.hpp"
#include "shardwise/cluster/communicator.hpp"
#include "shardwise/dispatch/split_options.hpp"

namespace shardwise::program {

/// What the environment says of the launcher that started this process.
struct Launch {
  std::string launcher;  ///< "mpirun", "srun", "mpiexec"
  int rank = 0, size = 1;
};
/// None: this process was started by itself. `variable` reads the environment.
std::optional<Launch> detect_launch(const std::function<const char*(const char*)>& variable);

/// Joins the ranks, where a launcher started several. Throws usage errors: this build has no MPI; its MPI is
/// not the launcher's, so that every process believes to be alone; a bad SHARDWISE_RANK_DEADLINE.
void join_ranks();
/// This process' ranks: itself alone, unless join_ranks() found more.
Communicator& ranks();
/// Ends MPI, on all ranks.
void leave_ranks();

inline bool is_first_rank() {
  return ranks().rank() == 0;
}
inline bool has_ranks() {
  return ranks().size() > 1;
}

/// Whether a launcher sets this variable ("NAME=VALUE") for its ranks. A process that a rank starts is none:
/// an MPI program that took it for one would break into the ranks of its parent.
bool is_of_launcher(std::string_view variable);

/// How long a rank may be silent: SHARDWISE_RANK_DEADLINE, seconds (60).
double rank_deadline_s();

/// One entry a rank for reports, on rank 0 (elsewhere null): rank, host, and what each rank gives; then
/// `traffic`, the bytes of each step. Collective.
Json gather_rank_reports(const Json& mine);
/// The table of those for people; `unit` is what they have counted ("lanes").
std::string rank_table(const Json& reports, const std::string& unit);

}  // namespace shardwise::program
