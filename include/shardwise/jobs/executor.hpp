#pragma once
// Runs jobs on the devices of a set: planned once, then pulled.
//
//   JobExecutor executor(open_devices("host:4"));
//   std::vector<JobResult> results = executor.run(std::move(jobs));  // results[i] answers jobs[i]
//
// A worker thread for each device takes the device's next job, and when there is none the next one of the
// device that would end last. Two jobs are committed to a device, one running and one with its copies under
// way; near the end one, so that nobody waits for work that another has promised. On sim devices there are no
// threads: whoever waits drives them, in virtual time.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardwise/jobs/job.hpp"
#include "shardwise/shard/stream_placer.hpp"

namespace shardwise {

/// Who gets a job of run().
enum class JobPlacement {
  by_cost,     ///< LPT over the batch
  by_content,  ///< the device of its key (StreamPlacer), as submit() does
};

/// Where jobs run.
enum class JobIsolation {
  none,  ///< in this process: after a fatal error on a GPU no CUDA call of it succeeds any more, on any GPU
  /// Source programs on CUDA devices run in one worker process for each device. A job that ends its process,
  /// or leaves its GPU's context beyond repair, has broken that process and nothing else: a fresh one takes
  /// over, the job is tried again, elsewhere where there is another device, and set aside by name once it has
  /// broken two. One past its timeout is stopped with its process. Cancelled ones that do not end within two
  /// seconds are stopped, too. Native programs are functions of this process and run here. On host devices a
  /// source program runs in a worker process where the worker program has its twin (serve_isolated_jobs());
  /// otherwise, and on sim, its host_twin runs here.
  process,
};

struct JobOptions {
  JobPlacement placement = JobPlacement::by_cost;
  std::vector<double> speeds;      ///< of the devices, relative; empty: alike
  std::uint64_t memory_bytes = 0;  ///< for jobs and caches on each device; 0: 80 % of what is free
  int retries = 1;                 ///< of a job that fails and says nothing else
  double timeout_s = 3600;         ///< of a job that says nothing else; infinity: none
  int memory_retries = 3;          ///< of a job that ran out of memory
  /// How long a device that failed, or that has a job past its timeout, may take to answer before it counts
  /// as lost.
  double probe_s = 5;
  bool fail_fast = false;          ///< the first job that fails cancels the rest
  PlacerOptions placer;            ///< of content placement
  std::size_t queue_limit = 1024;  ///< jobs given by submit() and stream() that have not ended
  std::string program_cache;       ///< a folder for compiled CUDA sources; empty: none
  JobIsolation isolate = JobIsolation::none;
  /// What is started as a worker process (isolated.hpp): a program, looked for on the path, and its
  /// arguments. Of the same build as this one.
  std::vector<std::string> worker_command{"shardwise", "job-worker"};
  /// How long a worker process may take to start and to open its device.
  double worker_start_s = 60;
  /// Called on the thread that waits in run() as jobs end, in that order. `index` is the job's in the batch.
  std::function<void(std::size_t index, const JobResult& result)> on_result;
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// ok: takes jobs. suspect: a job failed there, or does not end; it takes none until it answers. lost: it did
/// not answer; its jobs went elsewhere. A program that throws a usage or data Error has a mistake, which no
/// device can help: its device stays ok.
enum class JobDeviceState { ok, suspect, lost };
const char* to_string(JobDeviceState state) noexcept;

struct JobDeviceReport {
  std::string name, uuid, bus_id;
  JobDeviceState state = JobDeviceState::ok;
  std::string why_lost;
  std::uint64_t jobs = 0;     ///< done there
  std::uint64_t failed = 0;   ///< attempts there that failed or were past their timeout
  std::uint64_t cost = 0;     ///< of the jobs done
  double busy_s = 0;          ///< run times of all attempts that ran there, whatever became of them
  std::uint64_t workers = 0;  ///< worker processes that were started for it (JobOptions::isolate)
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t cache_hits = 0, cache_misses = 0, cache_evictions = 0;
};

/// What became of the jobs of the last run(), or since then.
struct JobReport {
  std::size_t jobs = 0, done = 0, failed = 0, cancelled = 0;
  std::vector<JobDeviceReport> devices;
  double makespan_s = 0;      ///< from the first job given to the last one ended
  double lower_bound_s = 0;   ///< of any order of the run times that were measured, of failed attempts, too
  std::uint64_t retries = 0;  ///< attempts beyond the first of a job
  std::uint64_t steals = 0;   ///< jobs that ran on another device than planned
  std::uint64_t spills = 0;   ///< jobs that content placement put elsewhere than on their content device
  std::uint64_t groups = 0;   ///< of short jobs that shared an event
  std::vector<std::string> set_aside;  ///< jobs that broke two devices
  std::vector<std::string> notes;      ///< lost devices and what moved, broken worker processes, in order
};

class JobQueue;
class JobCore;
struct JobTicket;

/// A job that was submitted. Move-only; dropping it does not cancel the job. get() once.
class JobFuture {
 public:
  JobFuture() = default;
  /// Waits for the job to end. Throws a state Error where there is none.
  JobResult get();
  /// For `seconds` at most (real ones; sim's jobs simply run): whether it has ended.
  bool wait_for(double seconds);
  bool is_ready() const;

 private:
  friend class JobExecutor;
  JobFuture(std::shared_ptr<JobCore> core, std::shared_ptr<JobTicket> ticket)
      : core_(std::move(core)), ticket_(std::move(ticket)) {}
  std::shared_ptr<JobCore> core_;
  std::shared_ptr<JobTicket> ticket_;
};

/// The order in which stream() hands results over.
enum class ResultOrder { completion, submission };

/// Members may be called from several threads, on sim devices from one. The destructor drains.
class JobExecutor {
 public:
  /// Throws usage Errors: speeds that do not fit the devices, options out of their range, a cache folder that
  /// cannot be used, with JobIsolation::process a worker program that is not there, is none, or is of another
  /// build.
  explicit JobExecutor(DeviceSet devices, JobOptions options = {});
  /// Every device of a platform (open_devices()): "cuda", "host", "sim:4". Throws a usage Error where there
  /// is none. "cuda" never counts a processor.
  static JobExecutor all(const std::string& platform, JobOptions options = {});
  /// The devices of a platform with these indices. Throws a usage Error for an empty list, an index that is
  /// twice in it or is not there, a device that cannot be opened.
  static JobExecutor on(const std::string& platform, const std::vector<int>& indices,
                        JobOptions options = {});
  ~JobExecutor();
  JobExecutor(JobExecutor&&) noexcept;
  JobExecutor& operator=(JobExecutor&&) = delete;

  const DeviceSet& devices() const;

  /// Runs a batch; result i answers job i, whatever became of the others. Throws usage Errors before anything
  /// runs: an id twice, a cost of 0, a job without a program, a device that is not there. A job larger than
  /// every device fails at once, with the numbers.
  std::vector<JobResult> run(std::vector<Job> jobs);

  /// Gives one job, placed by its key. Blocks while JobOptions::queue_limit jobs have not ended. Throws usage
  /// Errors as run().
  JobFuture submit(Job job);
  /// The same without blocking: empty where the queue is full; `job` is untouched then.
  std::optional<JobFuture> try_submit(Job& job);

  /// Takes jobs from `source` until it gives none, keeps JobOptions::queue_limit of them under way, and gives
  /// every result to `sink`, on this thread. Throws what source and sink throw, after the jobs under way have
  /// ended.
  void stream(const std::function<std::optional<Job>()>& source, const std::function<void(JobResult)>& sink,
              ResultOrder order = ResultOrder::completion);

  /// Jobs that have not begun end as cancelled; running ones are told (JobContext::is_cancelled()) and end as
  /// they do. May be called from any thread, from hooks too. Jobs given later run again.
  void cancel();
  /// Waits until no job is left.
  void drain();

  /// Cost promised to each device at the moment: zero at rest.
  std::vector<std::uint64_t> loads() const;
  /// Bytes promised to jobs and kept by caches on each device.
  std::vector<std::uint64_t> bytes() const;
  std::vector<JobDeviceState> states() const;
  JobReport report() const;

 private:
  std::shared_ptr<JobCore> core_;
};

}  // namespace shardwise
