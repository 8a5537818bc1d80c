#pragma once
// One device's side of the executor: puts attempts on its streams and says how they ended.
//
//   in       copy inputs of k+1 ──┐
//   compute  program of k ────────┴─ program of k+1
//   out                    └─ copy outputs of k ── ...
//
// At most two flights are in the air. A flight is one attempt, or a group of short ones with one event.
// Belongs to one thread at a time.

#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "jobs/job_queue.hpp"
#include "jobs/warm_store.hpp"

namespace shardwise {

class IsolatedWorker;
class SourcePrograms;
class LaneContext;

class JobLane {
 public:
  /// Throws where the device has no streams.
  JobLane(const DeviceSet& devices, int device, JobQueue& queue, const JobOptions& options,
          SourcePrograms& sources);
  ~JobLane();

  bool is_idle() const { return flights_.empty(); }
  /// Takes work while there is some and room for it. False where nothing was begun. What runs isolated is
  /// over when this returns.
  bool begin();
  /// Waits for the first flight and reports it; after a failure also the second, and whether the device is
  /// still there.
  void finish_front();
  /// The event of the first flight (sim's driver orders lanes by it).
  const Event& front_event() const;
  LaneStore& store() { return store_; }

 private:
  friend class LaneContext;
  struct Flight {
    std::vector<JobAttempt> attempts;
    std::vector<std::unique_ptr<LaneContext>> contexts;
    Event done;
    double begun_s = 0;
  };
  struct Failure {
    JobOutcome::Kind kind;
    ErrorClass error_class;
    std::string text;
  };

  /// As EventState::wait_on_host_for(), which sleeps between its questions to a GPU: short jobs are asked for
  /// at once.
  static bool comes(const Event& event, const Device& device, double seconds);
  /// Keeps what a device that was given up may still use, to the end of the process and past it.
  static void keep_for_good(std::shared_ptr<void> what);

  void start(std::vector<JobAttempt> attempts);
  // With a worker process (job_isolated.cpp).
  void run_isolated(JobAttempt attempt);
  bool start_worker();
  void call(LaneContext& context);
  JobDeviceState report(Flight flight, std::vector<JobOutcome> outcomes);
  JobOutcome success(Flight& flight, std::size_t i, double run_s);
  // What did not come through (job_lane_failures.cpp).
  Failure classify(const std::exception_ptr& error) const;
  bool is_mistake(const std::exception_ptr& error) const;
  /// The error that the streams hold, root before consequence; clears them.
  std::exception_ptr take_stream_error();
  void finish_failed(Flight flight, double run_s);
  void finish_late(Flight flight, double timeout_s, double run_s);
  void drop_others(const std::string& why);
  /// Asks the device for a sign of life. Its state in the queue follows.
  void probe();
  void abandon(Flight flight);
  double now() const { return queue_.now(); }
  double end_time(const Event& done) const;

  DeviceSet devices_;  ///< the one
  int device_;
  JobQueue& queue_;
  const JobOptions& options_;
  SourcePrograms& sources_;
  LaneStore store_;
  std::unique_ptr<IsolatedWorker> worker_;  ///< where programs may run isolated
  std::unique_ptr<Stream> in_, compute_, out_;
  std::deque<Flight> flights_;
  double last_end_s_ = 0;
  bool abandoned_ = false;
};

}  // namespace shardwise
