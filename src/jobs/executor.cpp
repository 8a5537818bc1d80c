// Threads: run(), submit() and the rest come from any thread and only touch the queue. A lane belongs to its
// worker from start_workers() on; on sim there are no workers, and the one thread that uses the executor
// drives all lanes. The queue's mutex is the only lock that both sides take.

#include "shardwise/jobs/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <set>
#include <thread>
#include <unordered_set>

#include "jobs/isolated_worker.hpp"
#include "jobs/job_lane.hpp"
#include "jobs/job_program.hpp"
#include "jobs/source_programs.hpp"
#include "runtime/sim/sim_world.hpp"
#include "shardwise/runtime/pending.hpp"

namespace shardwise {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr double for_ever = 1e18;

JobQueue::Clock clock_of(const DeviceSet& devices) {
  if (auto* world = dynamic_cast<SimScheduler*>(devices.sim_world()))
    return [world] { return world->host_time(); };
  const auto origin = SteadyClock::now();
  return [origin] { return std::chrono::duration<double>(SteadyClock::now() - origin).count(); };
}

std::vector<std::uint64_t> capacities_of(const DeviceSet& devices, const JobOptions& options) {
  std::vector<std::uint64_t> result;
  for (int d = 0; d < devices.size(); ++d)
    result.push_back(options.memory_bytes > 0 ? options.memory_bytes : devices[d].free_memory() / 10 * 8);
  return result;
}

void check(const DeviceSet& devices, const JobOptions& options) {
  if (devices.size() == 0) throw_usage("jobs: the device set is empty; open at least one device");
  if (!options.speeds.empty() && static_cast<int>(options.speeds.size()) != devices.size())
    throw_usage(fmt::format("jobs: {} speeds for the {} devices of '{}'; give one for each",
                            options.speeds.size(), devices.size(), devices.spec()));
  for (std::size_t d = 0; d < options.speeds.size(); ++d)
    if (!std::isfinite(options.speeds[d]) || options.speeds[d] <= 0)
      throw_usage(fmt::format("jobs: speed {} is {}; give a finite number above 0", d, options.speeds[d]));
  const auto at_least_0 = [](const char* name, double value) {
    if (!(value >= 0)) throw_usage(fmt::format("jobs: {} is {}; give 0 or more", name, value));
  };
  at_least_0("retries", options.retries);
  at_least_0("memory_retries", options.memory_retries);
  at_least_0("probe_s", options.probe_s);
  if (!(options.timeout_s > 0))
    throw_usage(fmt::format("jobs: timeout_s is {}; give a number above 0", options.timeout_s));
  if (options.queue_limit == 0) throw_usage("jobs: queue_limit is 0; give at least 1");
  if (options.isolate == JobIsolation::none) return;
  if (!(options.worker_start_s > 0))
    throw_usage(fmt::format("jobs: worker_start_s is {}; give a number above 0", options.worker_start_s));
  if (options.worker_command.empty() || options.worker_command.front().empty())
    throw_usage("jobs: worker_command names no program; give one that calls serve_isolated_jobs()");
}

/// Asked of a worker process of its own, before anything runs. On sim none is wanted.
std::set<std::string> worker_twins(const DeviceSet& devices, const JobOptions& options) {
  if (options.isolate == JobIsolation::none || devices.sim_world()) return {};
  return IsolatedWorker::twins_of(options);
}

void check_job(const Job& job, const std::string& id, int devices) {
  if (!job.program.state())
    throw_usage(
        fmt::format("jobs: job '{}' has no program; make one with JobProgram::native() or source()", id));
  if (job.cost == 0) throw_usage(fmt::format("jobs: job '{}' costs 0; give an estimate of at least 1", id));
  if (job.device && (*job.device < 0 || *job.device >= devices))
    throw_usage(fmt::format("jobs: job '{}' is for device {}, which is not there; give 0 to {}", id,
                            *job.device, devices - 1));
  if (job.timeout_s && !(*job.timeout_s > 0))
    throw_usage(
        fmt::format("jobs: job '{}' has a timeout of {} s; give a number above 0", id, *job.timeout_s));
  if (job.retries && *job.retries < 0)
    throw_usage(fmt::format("jobs: job '{}' has {} retries; give 0 or more", id, *job.retries));
}

}  // namespace

class JobCore : public std::enable_shared_from_this<JobCore> {
 public:
  JobCore(DeviceSet devices, JobOptions options)
      : devices_(std::move(devices)),
        options_((check(devices_, options), std::move(options))),
        queue_(devices_, options_, capacities_of(devices_, options_), clock_of(devices_),
               devices_.sim_world() == nullptr, worker_twins(devices_, options_)),
        sources_(options_.program_cache) {
    for (int d = 0; d < devices_.size(); ++d)
      lanes_.push_back(std::make_unique<JobLane>(devices_, d, queue_, options_, sources_));
    if (devices_.sim_world()) drive_ = [this] { return drive(); };
  }

  ~JobCore() = default;

  void start_workers() {
    if (drive_) return;
    running_ = lanes_.size();
    for (std::size_t d = 0; d < lanes_.size(); ++d)
      workers_.emplace_back([self = shared_from_this(), d] { self->work(d); });
    watch_ = std::thread([self = shared_from_this()] { self->watch(); });
  }

  /// Ends the threads. One that is stuck in a program is left behind, with all that it uses.
  void stop_workers() {
    queue_.stop();
    if (!drive_) {
      {
        std::unique_lock lock(exit_mutex_);
        stopping_ = true;
        wake_watch_.notify_all();
        exit_.wait_for(lock, std::chrono::duration<double>(std::max(options_.probe_s, 1.0)),
                       [&] { return running_ == 0; });
        if (running_ > 0)
          report_unwaited_error(fmt::format(
              "jobs: {} worker threads are still in a program that has not returned; they are left behind",
              running_));
        if (running_ > 0) {
          for (std::thread& worker : workers_) worker.detach();
          workers_.clear();
        }
      }
      for (std::thread& worker : workers_) worker.join();
      watch_.join();
      return;
    }
    for (auto& lane : lanes_) lane->store().clear();
  }

  std::shared_ptr<JobTicket> make_ticket(Job job, std::size_t index) const {
    auto ticket = std::make_shared<JobTicket>();
    ticket->id = job.id.empty() ? fmt::format("job {}", index) : job.id;
    check_job(job, ticket->id, devices_.size());
    ticket->index = index;
    ticket->job = std::move(job);
    return ticket;
  }

  DeviceSet devices_;
  JobOptions options_;
  JobQueue queue_;
  SourcePrograms sources_;
  std::function<bool()> drive_;  ///< on sim
  std::atomic<std::size_t> submitted_{0};

 private:
  void work(std::size_t d) {
    JobLane& lane = *lanes_[d];
    const int device = static_cast<int>(d);
    try {
      while (!queue_.stopped()) {
        lane.begin();
        if (lane.is_idle())
          queue_.wait_for_work(device, 1);
        else
          lane.finish_front();
      }
      while (!lane.is_idle()) lane.finish_front();
    } catch (const std::exception& error) {
      queue_.set_state(device, JobDeviceState::lost, fmt::format("its worker failed: {}", error.what()));
    }
    lane.store().clear();
    std::lock_guard lock(exit_mutex_);
    --running_;
    exit_.notify_all();
  }

  void watch() {
    std::unique_lock lock(exit_mutex_);
    while (!stopping_) {
      lock.unlock();
      const double next = queue_.look_after_the_late();
      lock.lock();
      wake_watch_.wait_for(lock, std::chrono::duration<double>(std::min(next, 0.25)),
                           [&] { return stopping_; });
    }
  }

  /// Sim: every lane gets what it can, then the flight that ends first in virtual time is finished. False
  /// where nothing runs.
  bool drive() {
    for (auto& lane : lanes_) lane->begin();
    auto* const world = static_cast<SimScheduler*>(devices_.sim_world());
    JobLane* first = nullptr;
    double first_s = 0;
    for (auto& lane : lanes_) {
      if (lane->is_idle()) continue;
      const auto* const event = dynamic_cast<const SimEvent*>(lane->front_event().state());
      double end_s = 0;
      if (event) {
        world->run_until([&] { return lane->front_event().is_signalled(); });
        end_s = event->time_s();
      }
      if (!first || end_s < first_s) {
        first = lane.get();
        first_s = end_s;
      }
    }
    if (!first) return false;
    first->finish_front();
    return true;
  }

  std::vector<std::unique_ptr<JobLane>> lanes_;
  std::vector<std::thread> workers_;
  std::thread watch_;
  std::mutex exit_mutex_;
  std::condition_variable exit_, wake_watch_;
  std::size_t running_ = 0;
  bool stopping_ = false;
};

JobResult JobFuture::get() {
  if (!ticket_) throw_state("JobFuture::get: there is no job (never submitted, moved from, or got already)");
  core_->queue_.wait_for(*ticket_, for_ever, core_->drive_);
  if (!is_ready())
    throw Error(ErrorClass::internal,
                fmt::format("jobs: nothing is left to run, yet job '{}' has not ended", ticket_->id));
  JobResult result = std::move(ticket_->result);
  ticket_.reset();
  core_.reset();
  return result;
}

bool JobFuture::wait_for(double seconds) {
  if (!ticket_)
    throw_state("JobFuture::wait_for: there is no job (never submitted, moved from, or got already)");
  return core_->queue_.wait_for(*ticket_, seconds, core_->drive_);
}

bool JobFuture::is_ready() const {
  return ticket_ && core_->queue_.wait_for(*ticket_, 0, core_->drive_ ? [] { return false; } : core_->drive_);
}

JobExecutor::JobExecutor(DeviceSet devices, JobOptions options)
    : core_(std::make_shared<JobCore>(std::move(devices), std::move(options))) {
  core_->start_workers();
}

JobExecutor JobExecutor::all(const std::string& platform, JobOptions options) {
  OpenOptions open;
  open.allow_mixed = true;
  return JobExecutor(open_devices(platform, open), std::move(options));
}

JobExecutor JobExecutor::on(const std::string& platform, const std::vector<int>& indices,
                            JobOptions options) {
  if (indices.empty())
    throw_usage(fmt::format("jobs: the list of devices of '{}' is empty; name at least one", platform));
  for (std::size_t i = 0; i < indices.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (indices[i] == indices[j])
        throw_usage(fmt::format("jobs: device {} of '{}' is listed twice, at {} and {}; list each once",
                                indices[i], platform, j, i));
  OpenOptions open;
  open.allow_mixed = true;
  // Opening a GPU makes a context there: only on those that were asked for.
  if (platform == "cuda") {
    std::string spec = "cuda:";
    for (const int index : indices) spec += fmt::format("{},", index);
    spec.pop_back();
    return JobExecutor(open_devices(spec, open), std::move(options));
  }
  const std::string spec = platform == "host" ? fmt::format("host:{}", available_cores()) : platform;
  return JobExecutor(open_devices(spec, open).subset(indices), std::move(options));
}

JobExecutor::JobExecutor(JobExecutor&&) noexcept = default;

JobExecutor::~JobExecutor() {
  if (!core_) return;
  try {
    drain();
  } catch (const std::exception& error) {
    report_unwaited_error(error.what());
  }
  core_->stop_workers();
}

const DeviceSet& JobExecutor::devices() const {
  return core_->devices_;
}

std::vector<JobResult> JobExecutor::run(std::vector<Job> jobs) {
  const JobOptions& options = core_->options_;
  auto sink = std::make_shared<JobSink>();
  sink->remaining = jobs.size();
  sink->wants_each = static_cast<bool>(options.on_result);
  std::vector<std::shared_ptr<JobTicket>> tickets;
  std::unordered_set<std::string> ids;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!jobs[i].id.empty() && !ids.insert(jobs[i].id).second) {
      std::size_t first = 0;
      while (tickets[first]->id != jobs[i].id) ++first;
      throw_usage(fmt::format("jobs: the id '{}' is that of jobs {} and {}; ids are unique in a batch",
                              jobs[i].id, first, i));
    }
    tickets.push_back(core_->make_ticket(std::move(jobs[i]), i));
    tickets.back()->sink = sink;
  }
  core_->queue_.add_batch(std::move(tickets));
  std::vector<JobResult> results(jobs.size());
  std::size_t done = 0;
  while (done < results.size()) {
    const auto ended = core_->queue_.wait_for(sink, 0.1, core_->drive_);
    for (const auto& ticket : ended) {
      results[ticket->index] = std::move(ticket->result);
      ++done;
      if (options.on_result) options.on_result(ticket->index, results[ticket->index]);
    }
    if (options.progress) options.progress(done, results.size());
  }
  return results;
}

JobFuture JobExecutor::submit(Job job) {
  auto ticket = core_->make_ticket(std::move(job), core_->submitted_++);
  while (!core_->queue_.try_add(ticket)) core_->queue_.wait_for_room(core_->drive_);
  return JobFuture(core_, std::move(ticket));
}

std::optional<JobFuture> JobExecutor::try_submit(Job& job) {
  auto ticket = core_->make_ticket(job, core_->submitted_++);
  if (!core_->queue_.try_add(ticket)) return std::nullopt;
  job = {};
  return JobFuture(core_, std::move(ticket));
}

void JobExecutor::stream(const std::function<std::optional<Job>()>& source,
                         const std::function<void(JobResult)>& sink, ResultOrder order) {
  auto gathered = std::make_shared<JobSink>();
  gathered->wants_each = true;
  std::map<std::size_t, JobResult> waiting;  // for those before them
  std::size_t given = 0, handed_over = 0;
  std::exception_ptr error;
  const auto hand_over = [&](JobResult result) {
    ++handed_over;
    if (error) return;
    try {
      sink(std::move(result));
    } catch (...) {
      error = std::current_exception();
    }
  };
  const auto collect = [&] {
    for (const auto& ticket : core_->queue_.wait_for(gathered, 0.1, core_->drive_)) {
      if (order == ResultOrder::completion) {
        hand_over(std::move(ticket->result));
        continue;
      }
      waiting.emplace(ticket->index, std::move(ticket->result));
      while (!waiting.empty() && waiting.begin()->first == handed_over) {
        JobResult next = std::move(waiting.begin()->second);
        waiting.erase(waiting.begin());
        hand_over(std::move(next));
      }
    }
  };
  while (!error) {
    // Results that wait for earlier ones count as under way, so that memory stays bounded.
    if (given - handed_over >= core_->options_.queue_limit) {
      collect();
      continue;
    }
    std::shared_ptr<JobTicket> ticket;
    try {
      std::optional<Job> job = source();
      if (!job) break;
      ticket = core_->make_ticket(std::move(*job), given);
    } catch (...) {
      error = std::current_exception();
      break;
    }
    ticket->sink = gathered;
    core_->queue_.expect_one_more(gathered);
    while (!core_->queue_.try_add(ticket)) core_->queue_.wait_for_room(core_->drive_);
    ++given;
  }
  while (handed_over < given) collect();
  if (error) std::rethrow_exception(error);
}

void JobExecutor::cancel() {
  core_->queue_.cancel();
}

void JobExecutor::drain() {
  core_->queue_.wait_until_idle(core_->drive_);
}

std::vector<std::uint64_t> JobExecutor::loads() const {
  return core_->queue_.loads();
}

std::vector<std::uint64_t> JobExecutor::bytes() const {
  return core_->queue_.bytes().loads();
}

std::vector<JobDeviceState> JobExecutor::states() const {
  std::vector<JobDeviceState> result;
  for (int d = 0; d < core_->devices_.size(); ++d) result.push_back(core_->queue_.state(d));
  return result;
}

JobReport JobExecutor::report() const {
  return core_->queue_.report();
}

}  // namespace shardwise
