#pragma once
// This process as a rank of an MPI run: one lock around every MPI call, waits that end, and the watch.
//
// Threads: any thread may wait. The watch is a thread of its own, which exchanges beats with rank 0 (rank 0:
// with everybody) for as long as the process is a rank. A beat says what a rank is doing; rank 0's carry what
// all are doing. Whoever finds a rank silent for longer than the deadline, or nobody computing while somebody
// waits for longer than it, writes down who waits for what and ends the run. MPI is called under mutex() only
// (MPI_THREAD_SERIALIZED).

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shardwise/cluster/mpi.hpp"

namespace shardwise {

class MpiProcess {
 public:
  /// What this process is doing, as the others see it.
  enum class State : std::int32_t {
    computing,  ///< in no call of the communicator
    waiting,    ///< in a collective, for others to come
    moving,     ///< in a collective that all have come to: data is on its way
    message,    ///< for a message
    leaving,    ///< for the end of MPI
  };

  explicit MpiProcess(const MpiOptions& options);
  ~MpiProcess();
  MpiProcess(const MpiProcess&) = delete;
  MpiProcess& operator=(const MpiProcess&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  const std::string& library() const { return library_; }
  const std::string& host(int rank) const { return hosts_.at(static_cast<std::size_t>(rank)); }

  std::mutex& mutex() { return mutex_; }
  /// Runs an MPI call under the lock. Ends the run where it fails: nothing is known of the other ranks then.
  template <class Call>
  void call(const char* name, Call&& mpi_call) {
    std::unique_lock lock(mutex_);
    const int code = mpi_call();
    if (code == MPI_SUCCESS) return;
    lock.unlock();
    end_after(name, code);
  }
  /// Waits until done() says so. False: another rank announced a failure `grace_s` ago, and it has not.
  /// `grace_s` below 0: waits on.
  template <class Done>
  bool wait_until(Done&& done, double grace_s) {
    for (const auto start = Clock::now(); !done();) {
      if (grace_s >= 0 && failed_for(grace_s)) return false;
      pause(start);
    }
    return true;
  }
  bool wait(std::span<MPI_Request> requests, double grace_s);

  /// State changes are told at once where it matters, else with the next beat.
  void set_state(State state, std::string_view what);
  void set_step(std::string_view step);
  /// For as long as one is there, its thread waits for a message; what it says is for the dump.
  class MessageWait {
   public:
    MessageWait(MpiProcess& process, std::string_view what, int peer, bool receive);
    ~MessageWait();
    MessageWait(const MessageWait&) = delete;
    MessageWait& operator=(const MessageWait&) = delete;

   private:
    MpiProcess& process_;
    bool counts_;
  };
  void announce_failure();
  void failure_was_agreed();
  /// Whether another rank announced a failure `seconds` ago or more that was not agreed yet.
  bool failed_for(double seconds) const { return signal_->failing_rank(seconds) >= 0; }
  const std::shared_ptr<FailureSignal>& signal() const { return signal_; }

  [[noreturn]] void end_run(const std::string& text, int exit_code);

 private:
  using Clock = std::chrono::steady_clock;
  struct Beat {
    std::int64_t failures = 0;  ///< agreed so far: an old announcement is told from a new one by it
    std::int32_t failing = 0;   ///< 1: announces a failure
    std::int32_t last = 0;      ///< 1: nothing follows
    State state = State::computing;
    std::int32_t unused = 0;
    double since_s = 0;  ///< in this state, when it was sent
    double heard_s = 0;  ///< ago, by rank 0; filled by it
    char what[64] = {};
  };
  struct Peer {
    Beat beat;
    Clock::time_point heard;
    Clock::time_point since;
    bool left = false;
    MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
    std::vector<Beat> outgoing, incoming;
  };

  void pause(Clock::time_point start) const;
  void start_watch();
  void watch();
  void exchange_beats(bool send);
  std::unique_lock<std::mutex> lock_for_watch();
  void take_beats(int peer, const std::vector<Beat>& beats);
  Beat own_beat();
  void check_deadlines();
  std::string dump() const;
  void end_after(const char* name, int code);
  void leave();

  MpiOptions options_;
  bool initialised_here_ = false;
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  bool crowded_ = false;  ///< more ranks than cores here: waiting must not spin
  std::string library_;
  std::vector<std::string> hosts_;
  std::mutex mutex_;
  MPI_Comm watch_comm_ = MPI_COMM_NULL;
  const std::shared_ptr<FailureSignal> signal_ = std::make_shared<FailureSignal>();
  /// The thread of the collectives: a message that another thread waits for holds nobody up.
  const std::thread::id owner_ = std::this_thread::get_id();

  // Of the watch; written by others under state_mutex_.
  mutable std::mutex state_mutex_;
  std::condition_variable wake_;
  State state_ = State::computing;
  std::string what_, step_;
  Clock::time_point state_since_;
  int messages_waiting_ = 0;
  std::string message_what_;
  Clock::time_point message_since_;
  bool failing_ = false, hurry_ = false, stop_ = false, may_leave_ = false, tell_failure_ = false;
  std::int64_t failures_ = 0;
  std::vector<Peer> peers_;  ///< by rank; of rank 0 alone where this is another
  std::thread watch_thread_;

  std::atomic<bool> watch_waits_{false};
  std::atomic<bool> ending_{false};
};

}  // namespace shardwise
