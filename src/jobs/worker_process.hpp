#pragma once
// A worker process: started with one end of a socket as its standard input and the shared memory as file 3,
// killed with what it started when this object goes, and by the system when the thread that started it ends.

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jobs/shared_memory.hpp"
#include "jobs/worker_wire.hpp"

namespace shardwise {

/// Where a worker finds the shared memory. Its socket is standard input.
inline constexpr int worker_memory_file = 3;

/// For one thread.
class WorkerProcess {
 public:
  /// `command`: the program, looked for on the path, and its arguments. `environment` is added to ours.
  /// Throws a usage Error where the program cannot be started.
  WorkerProcess(std::vector<std::string> command,
                const std::vector<std::pair<std::string, std::string>>& environment);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  WireChannel& channel() { return *channel_; }
  SharedMemory& memory() { return memory_; }
  pid_t id() const { return process_; }
  /// Whether it has ended by itself, or was killed by somebody else.
  bool has_ended();
  /// "was killed by signal 11 (Segmentation fault)", "ended with exit code 3". Waits a moment for an end that
  /// its socket has told of.
  std::string end_text();
  /// Ends it, and what it started.
  void stop() noexcept;

 private:
  bool look(bool reap) noexcept;

  SharedMemory memory_;
  std::unique_ptr<WireChannel> channel_;
  pid_t process_ = -1;
  int handle_ = -1;
  bool ended_ = false, reaped_ = false;
  int code_ = 0, status_ = 0;  ///< of siginfo_t; 0: not known
};

}  // namespace shardwise
