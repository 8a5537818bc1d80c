#pragma once
// A small process that outlives us by a moment, to end what commands of the user's left running when we were
// killed. The kernel ends a command whose parent dies, but nothing that the command started.
//
// Who calls what: begin_keeping() and forget_group() any thread; tell_keeper() in a child between fork and
// exec as well. The keeper is this program again, started with a word that no user would type, because a
// process of many threads cannot safely fork and go on. It hears of process groups on a pipe. When the pipe
// ends, however that came about, it ends the groups that nobody told it to forget, each with all of its
// session where it is the session's first.
//
// A group's number is not another's while the keeper knows it: it is forgotten before its first process is
// waited for, and only a process of the session that it was told of counts as the group's.

#include <sys/types.h>

namespace shardwise::program {

/// The word after the program's name that makes it a keeper.
inline constexpr const char* kKeeperWord = "--keep-process-groups-of-parent";

/// In the place of a session on the channel: forget the group.
inline constexpr int kForgetGroup = -1;

/// Starts the keeper, once a process; it ends with us. Without one (no /proc, too many processes) a warning
/// says what may stay behind after a SIGKILL.
void begin_keeping();

/// The group `number` exists from now on. Signal-safe; no effect without a keeper.
void tell_keeper(pid_t number);

/// The group has ended, and its number is about to be free.
void forget_group(pid_t number);

/// What the keeper does: hears of groups on `channel` until it ends, then SIGTERM to those left, and after
/// `grace_seconds` SIGKILL. Returns the exit code.
int keep_groups(int channel, double grace_seconds);

/// main() of a keeper: standard input is the channel; nothing else of ours stays open.
int run_keeper();

}  // namespace shardwise::program
