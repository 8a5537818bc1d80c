#pragma once
// Which process one is, among all that may share a file system: a number alone is given again, and every
// container has a process 1.

#include <optional>
#include <string>

namespace shardwise::program {

struct ProcessIdentity {
  std::string host;
  /// Of its machine's start and its process namespace: within one, numbers mean the same. Empty: not known.
  std::string space;
  long number = 0;
  std::string started;  ///< since the machine's start, in the kernel's ticks; empty: not known

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

ProcessIdentity own_identity();

/// What can be known here of another process.
enum class ProcessFate {
  runs,     ///< this very process
  stopped,  ///< as runs, but SIGSTOP or a terminal holds it up
  gone,     ///< ended, or its number is another's by now
  unknown   ///< it is on another machine or in another container, or /proc does not tell
};
ProcessFate fate_of(const ProcessIdentity& process);

/// "PATH.part-...": a name that no other process uses, on any machine, nor this one again.
std::string temporary_name(const std::string& path);
/// Whether temporary_name() made the name.
bool is_temporary_name(const std::string& name);

}  // namespace shardwise::program
