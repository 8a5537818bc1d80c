#pragma once
// The folder of one job among the results. A job knows where it is and may do to it what it likes, so it is
// looked at again each time before something is written there: what is written goes nowhere else.

#include <filesystem>
#include <string>

namespace shardwise::program {

/// Before anything runs: what is in the folder's place is not the job's doing, so it is not removed. Throws a
/// usage error for a file or a link there.
void check_job_place(const std::filesystem::path& place, const std::string& id);

/// Makes sure that `place` is a folder and no link to one. A link or a file in its place is removed (only
/// itself), with a warning that names the job. True: the folder was there, as it should be. Throws Error{io}.
bool make_job_folder(const std::filesystem::path& place, const std::string& id);

/// Makes the folder ready for a command: its stdout.part and stderr.part are not there, so that nothing is
/// written through a link.
void prepare_job_folder(const std::filesystem::path& place, const std::string& id);

/// After a command: stdout.part and stderr.part get their names. Where the command has removed or replaced
/// its folder, or them, a warning says so and names the job.
void keep_job_output(const std::filesystem::path& place, const std::string& id);

/// After a command that did not start: it said nothing, and what an earlier one said is not its.
void drop_job_output(const std::filesystem::path& place) noexcept;

}  // namespace shardwise::program
