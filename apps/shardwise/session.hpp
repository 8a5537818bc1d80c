#pragma once
// The processes of a session: what a command started, also what it put into groups of their own (as
// `timeout` and shells with job control do), as long as nobody began another session.

#include <sys/types.h>

#include <set>

namespace shardwise::program {

/// The process groups in it at the moment, as far as /proc shows them. Those of processes that have ended and
/// were not waited for are among them.
std::set<pid_t> groups_of_session(pid_t session);

/// To every process in it, its leader's group first. SIGKILL is repeated a few times for what is started
/// meanwhile. The number must be known not to be another session's: its leader has not been waited for.
void signal_session(pid_t session, int number);

}  // namespace shardwise::program
