#pragma once
// SIGINT, SIGTERM and SIGHUP ask the program to stop. The first sets a flag that every long step polls; a
// second one removes half-written files and leaves at once. The handler touches lock-free atomics and
// unlink() only.

#include <atomic>
#include <string>

namespace shardwise::program {

/// Installs the handlers; SIGPIPE is ignored, so that a closed pipe is an ordinary write error.
void install_signal_handlers();

/// True after a signal. Long calls take its address (`CoverageOptions::cancel`).
const std::atomic<bool>& stop_requested();

/// Sets it because another rank has failed: what is running here is in vain. Any thread.
void stop_for_other_rank();
bool stopped_for_other_rank();

/// The first signal's number, 0 while there was none.
int caught_signal();

/// What the program says of its end by a signal: 'stopped by SIGINT; no output was written', or what takes
/// the place of the latter: commands that keep what is done say where.
std::string stop_text(int number);
void set_stop_remark(std::string remark);

/// Throws Error{interrupted} after a signal; called between steps.
void throw_if_stopped();

/// A file that a second signal removes. At most 16 at a time; more are simply not remembered. Returns a slot
/// for forget_temporary(), -1 where none was free. Main thread only.
int remember_temporary(const std::string& path);
void forget_temporary(int slot);
/// Removes what is remembered, as a second signal does: the process is about to be ended from any thread.
void remove_temporaries();

}  // namespace shardwise::program
