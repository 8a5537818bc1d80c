#pragma once
// Which job runs where, and what becomes of it: the state of all jobs and devices, without any device.
// Workers take() and finish(); whoever waits, waits here.
//
// Invariants, under mutex_: a ticket that has not ended is in exactly one queue or is running in exactly one
// attempt that counts; its cost is promised to that device and to no other; ended tickets never change.
//
// job_placing.cpp puts jobs into queues, job_taking.cpp hands them to workers, job_ending.cpp decides what
// becomes of them afterwards, job_queue.cpp has the queues, those who wait, and the report.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "shardwise/jobs/executor.hpp"
#include "shardwise/shard/load_account.hpp"

namespace shardwise {

/// Where ended jobs of one run() or stream() gather. Guarded by the queue's mutex.
struct JobSink {
  std::deque<std::shared_ptr<JobTicket>> ended;
  std::size_t remaining = 0;
  bool wants_each = false;  ///< wake the waiting thread for every job, not only for the last
};

/// One job's life.
struct JobTicket {
  Job job;
  std::string id;
  std::size_t index = 0;  ///< in its batch
  JobResult result;
  std::uint64_t attempt = 0;  ///< the number of the attempt that counts; 0: none runs
  int attempts = 0, memory_failures = 0;
  std::vector<int> failed_on, broke;
  std::optional<JobError> last_failure;  ///< of the last attempt that was not done, in its own words
  bool alone = false;                    ///< neither in a group nor beside another job
  bool stays = false;                    ///< no other device may take it while its own is well
  bool taken_up = false;                 ///< an attempt was made
  double given_s = 0, not_before_s = 0;
  int device = -1;  ///< in whose queue it is, or where it runs
  LoadAccount::Token load;
  bool ended = false;
  bool by_content = false;  ///< its load is the placer's, too
  bool holds_slot = false;  ///< of queue_limit
  /// Where outputs of these sizes go, in place of the result; then output_sizes has what the program made.
  std::vector<std::span<std::byte>> places;
  std::vector<std::uint64_t> output_sizes;
  std::shared_ptr<JobSink> sink;
};

/// A job given to a worker.
struct JobAttempt {
  std::shared_ptr<JobTicket> ticket;
  std::uint64_t number = 0;
  int device = 0;
  double begun_s = 0;
  LoadAccount::Token bytes;
};

/// How an attempt ended.
struct JobOutcome {
  enum class Kind {
    done,
    failed,         ///< the job's own fault, as far as anybody can tell
    timed_out,      ///< it may still be running
    out_of_memory,  ///< requeued with backoff
    device_lost,    ///< the device went with it
    worker_broken,  ///< its worker process went with it; the device is well
    collateral,     ///< another's fault: it was dropped, or ran beside the one that failed
    declined,       ///< by Job::admit
  };
  Kind kind = Kind::done;
  ErrorClass error_class = ErrorClass::internal;
  std::string error;
  std::vector<std::vector<std::byte>> outputs;
  std::any value;
  double run_s = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

class JobQueue {
 public:
  using Clock = std::function<double()>;
  /// `capacities`: bytes of each device. `waits`: whether time passes by itself (not on sim). `worker_twins`:
  /// kernels whose host twins the worker program has.
  JobQueue(const DeviceSet& devices, const JobOptions& options, std::vector<std::uint64_t> capacities,
           Clock clock, bool waits, std::set<std::string> worker_twins = {});

  // --- giving jobs ---
  /// Plans a batch. Throws before anything is taken in.
  void add_batch(std::vector<std::shared_ptr<JobTicket>> tickets);
  /// Places one by content. False where the queue is full; nothing happened then.
  bool try_add(const std::shared_ptr<JobTicket>& ticket);
  void expect_one_more(const std::shared_ptr<JobSink>& sink);

  // --- workers ---
  struct Taken {
    std::vector<JobAttempt> attempts;  ///< a group of one program, or one job, or nothing
    std::uint64_t wants_bytes = 0;     ///< nothing, because a job waits for this many bytes here
  };
  /// The next work of a device that has `committed` units of work already (0 or 1).
  Taken take(int device, int committed, std::uint64_t evictable_bytes);
  /// Blocks until there may be work for the device, or stop(). For `limit_s` at most.
  void wait_for_work(int device, double limit_s);
  /// Of attempts on one device; returns its state afterwards.
  JobDeviceState finish(std::vector<JobAttempt> attempts, std::vector<JobOutcome> outcomes);
  /// Attempts that do not count any more: another one does, or the job has ended.
  bool is_stale(const JobAttempt& attempt) const;
  void set_state(int device, JobDeviceState state, const std::string& why = {});
  JobDeviceState state(int device) const;
  void count_worker(int device);
  /// Whether a device runs a program in its worker process. The lane keeps the clock of such a job.
  bool is_isolated(int device, const JobProgram::State& program) const;
  void stop();
  bool stopped() const;

  /// Gives up attempts that are past their timeout but whose worker does not come back, and devices that have
  /// been suspect for longer than JobOptions::probe_s and half as long again. Returns seconds until the next
  /// look is due.
  double look_after_the_late();

  // --- waiting ---
  /// Ended tickets of the sink, at least one unless none remains or `seconds` pass. `drive` replaces waiting
  /// on sim; it returns false where nothing is left to do.
  std::vector<std::shared_ptr<JobTicket>> wait_for(const std::shared_ptr<JobSink>& sink, double seconds,
                                                   const std::function<bool()>& drive);
  bool wait_for(const JobTicket& ticket, double seconds, const std::function<bool()>& drive);
  void wait_for_room(const std::function<bool()>& drive);
  void wait_until_idle(const std::function<bool()>& drive);
  void cancel();

  // --- looking ---
  bool has_cancelled(const JobAttempt& attempt) const;
  std::vector<std::uint64_t> loads() const { return loads_.loads(); }
  const LoadAccount& bytes() const { return bytes_; }
  double now() const { return clock_(); }
  JobReport report() const;
  void count_cache(int device, std::uint64_t hits, std::uint64_t misses, std::uint64_t evictions);
  /// What a job of the program was seen to take; 0: not known.
  double expected_s(const JobProgram::State* program) const;

 private:
  using Ticket = std::shared_ptr<JobTicket>;
  struct QueueDevice {
    JobDeviceReport report;
    PlatformKind kind = PlatformKind::host;
    double speed = 1;
    std::deque<Ticket> queue;
    std::uint64_t queued_cost = 0;
    double suspect_since_s = 0;
    double counted_until_s = 0;  ///< when the last attempt there was over, or given up
  };
  struct Running {
    Ticket ticket;
    std::uint64_t number;
    double begun_s, deadline_s;
  };

  // All of these under mutex_.
  bool can_run_program(std::size_t device, const Ticket& ticket) const;
  bool blocks(std::size_t device, const Ticket& ticket) const;
  void set_aside(const Ticket& ticket, const JobOutcome& outcome);
  bool may_run_on(std::size_t device, const Ticket& ticket) const;
  bool fits_none(const Ticket& ticket);
  void begin_statistics();
  void check_total(const std::vector<Ticket>& tickets) const;
  void place_by_content(const Ticket& ticket);
  void place_by_cost(const std::vector<Ticket>& tickets);
  void enqueue(std::size_t device, const Ticket& ticket, bool front);
  Ticket dequeue(std::size_t device, std::size_t position);
  void requeue(const Ticket& ticket);
  void end(const Ticket& ticket, JobStatus status, std::optional<JobError> error);
  void end_failed(const Ticket& ticket, ErrorClass error_class, const std::string& why);
  void cancel_queued_because_of(const Ticket& failed);
  void cancel_queued_if_any_failed(std::span<const Ticket> placed);
  void count_time(std::size_t device, const JobOutcome& outcome);
  void finish_one(JobAttempt& attempt, JobOutcome& outcome);
  void lose(std::size_t device, const std::string& why);
  void move_queue_of(std::size_t device);
  bool any_left() const;
  void note(std::string text);
  std::optional<std::size_t> position_to_take(std::size_t device, std::size_t for_device, int committed,
                                              double now, std::uint64_t evictable_bytes, Taken& taken) const;
  std::size_t group_size(std::size_t from, std::size_t for_device, const Ticket& ticket) const;
  std::string device_name(int device) const { return devices_[static_cast<std::size_t>(device)].report.name; }

  JobOptions options_;
  Clock clock_;
  bool waits_;
  std::set<std::string> worker_twins_;
  LoadAccount loads_, bytes_;
  mutable std::mutex mutex_;
  std::condition_variable work_, ended_;
  std::vector<QueueDevice> devices_;
  StreamPlacer placer_;
  std::map<std::uint64_t, Running> running_;
  std::map<const JobProgram::State*, double> expected_;
  std::uint64_t next_attempt_ = 1;
  std::size_t queued_ = 0, alive_ = 0, slots_ = 0;
  bool stopped_ = false;
  std::uint64_t cancelled_before_ = 0;  ///< attempts with a smaller number are told
  // Of the report.
  JobReport totals_;
  std::vector<std::pair<double, int>> run_times_;  ///< seconds, device
  double first_given_s_ = 0, last_ended_s_ = 0;
};

/// Below this a job goes to its device together with others of its program.
inline constexpr double short_job_s = 100e-6;

}  // namespace shardwise
