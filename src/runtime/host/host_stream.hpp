#pragma once
// A worker thread and a queue. enqueue(), record() and wait() come from one thread at a time; the worker
// alone runs operations. Invariants: items leave the queue in order, and an item that waits for an event
// holds up all behind it; nothing that an item does ends the worker. error_ is set by the worker while it is
// busy and taken by the enqueuing thread while it is not.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/host/host_device.hpp"

namespace shardwise {

/// Signalled by a host stream's worker. Thread-safe.
class HostEvent final : public EventState {
 public:
  void wait_on_host() override;
  bool wait_on_host_for(double seconds) override;
  bool is_signalled() override;
  void signal(bool failed);
  bool failed() override;
  double seconds_since(EventState& earlier) override;

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool signalled_ = false, failed_ = false;
  std::chrono::steady_clock::time_point time_;  ///< of the signal, where timed
};

class HostStream final : public Stream {
 public:
  HostStream(HostDevice& device, std::string name);
  ~HostStream() override;

  void enqueue(Operation operation) override;
  Event record() override { return record(false); }
  Event record_timed() override { return record(true); }
  void wait(const Event& event) override;
  void synchronize() override;
  std::string error() override;

 private:
  struct Item {
    Operation operation;
    std::shared_ptr<HostEvent> signal;     ///< set: a record
    std::shared_ptr<EventState> wait_for;  ///< set: a wait
  };
  Event record(bool timed);
  void push(Item item);
  void run();
  void run_item(Item& item, bool failed);
  void wait_for(EventState& event);
  void run_operation(Operation& operation);
  void fail(std::exception_ptr error);

  HostDevice& device_;
  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<Item> queue_;
  bool busy_ = false, stopping_ = false;
  std::exception_ptr error_;
  std::string last_enqueued_;  ///< the enqueuing thread's
  std::string waited_for_;     ///< the worker's
  std::thread worker_;
};

}  // namespace shardwise
