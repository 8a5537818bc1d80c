#pragma once
// The executor's side of one device's worker process: starts it, hands it jobs, and says how they ended. What
// a job may do to its process (end it, hang in it, leave its GPU's context beyond repair) ends there: the
// process is stopped, and the next start() makes a fresh one.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jobs/job_queue.hpp"
#include "jobs/worker_process.hpp"

namespace shardwise {

/// Belongs to the device's worker thread: the process ends with it.
class IsolatedWorker {
 public:
  IsolatedWorker(const JobOptions& options, const Device& device);
  ~IsolatedWorker();

  /// Starts the worker program without a device, asks who it is, and ends it. Returns the kernels whose host
  /// twins it has. Throws usage Errors: no such program, none of ours, another build.
  static std::set<std::string> twins_of(const JobOptions& options);

  /// Whether there is a process that waits for a job.
  bool is_up();
  /// A fresh process that has opened the device. `give_up` is asked meanwhile. Throws what twins_of() throws,
  /// Error{lost} where the device cannot be opened, Error{interrupted} after give_up.
  void start(const std::function<bool()>& give_up);
  /// One job from its inputs to its outputs; is_up() before, and afterwards where the process is still good.
  JobOutcome run(const JobTicket& ticket, double timeout_s, const std::function<bool()>& is_cancelled);

 private:
  struct Layout;
  static void check_hello(const JobOptions& options, WorkerProcess& process, std::set<std::string>* twins,
                          const std::function<void()>& idle);
  std::uint64_t number_of(const JobProgram& program);
  Layout send(const JobTicket& ticket, const std::function<void()>& idle);
  void receive(const JobTicket& ticket, const Layout& layout, JobOutcome& outcome,
               const std::function<void()>& idle);
  std::optional<WireMessage> receive_of_job(WireType wanted, const std::function<void()>& idle);
  JobOutcome broken(std::string how);

  const JobOptions& options_;
  const Device& device_;
  std::unique_ptr<WorkerProcess> process_;
  std::map<const JobProgram::State*, std::pair<JobProgram, std::uint64_t>> programs_;  ///< that it knows
  std::uint64_t sequence_ = 0;
  int untaken_ = 0;  ///< jobs in a row that no process took
};

}  // namespace shardwise
