#pragma once

#include <algorithm>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <random>

#include "runtime/host/host_device.hpp"
#include "runtime/race_checker.hpp"
#include "runtime/sim/fault_injector.hpp"
#include "runtime/sim/sim_clock.hpp"
#include "runtime/sim/sim_memory.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise {

class SimDevice;
class SimStream;
class SimScheduler;

/// A point in a sim stream.
class SimEvent final : public EventState {
 public:
  explicit SimEvent(std::shared_ptr<SimScheduler> world) : world_(std::move(world)) {}
  void wait_on_host() override;
  /// The host's time is none of sim's: runs until the event is signalled. What hangs takes virtual time: not
  /// more than these seconds are spent on waiting for it.
  bool wait_on_host_for(double seconds) override;
  bool is_signalled() override { return signalled_; }
  bool failed() override { return failed_; }
  void signal(bool failed, double time_s);
  double time_s() const { return time_s_; }
  double seconds_since(EventState& earlier) override;

  VectorClock clock;

 private:
  std::shared_ptr<SimScheduler> world_;
  bool signalled_ = false, failed_ = false;
  double time_s_ = 0;
};

class SimScheduler final : public SimWorld {
 public:
  SimScheduler(std::uint64_t seed, int threads, SimTopology topology, bool guarded)
      : random_(seed),
        pool_(threads),
        topology_(std::move(topology)),
        links_(topology_),
        faults_(static_cast<int>(topology_.devices.size())),
        memory_(guarded && !topology_.dry, topology_.dry) {}

  std::vector<RaceReport> races() const override;
  void clear_races() override { checker_.clear_races(); }
  std::uint64_t take_order_hash() override;
  void reseed(std::uint64_t seed) override { random_.seed(seed); }
  double virtual_time() const override { return time_s_; }
  /// Virtual time has come to this point somewhere.
  void reach(double time_s) { time_s_ = std::max(time_s_, time_s); }
  /// The host has waited for something that ended at this time: what it enqueues from now on begins no
  /// earlier.
  void reach_on_host(double time_s) { host_time_s_ = std::max(host_time_s_, time_s); }
  double host_time() const { return host_time_s_; }
  const SimTopology& topology() const override { return topology_; }
  SimLinks& links() { return links_; }
  SimMemory& memory() { return memory_; }

  using SimWorld::set_faults;
  void set_faults(const FaultScript& script) override;
  /// At open: also what is fixed from then on.
  void set_first_faults(const FaultScript& script);
  std::vector<std::string> faults_met() const override { return faults_met_; }
  FaultSteps fault_steps(int device) const override;
  FaultInjector& faults() { return faults_; }
  void note_fault(std::string text) { faults_met_.push_back(std::move(text)); }
  void add_device(SimDevice* device) { devices_.push_back(device); }
  void remove_device(SimDevice* device) { std::erase(devices_, device); }
  /// Null where the device is gone already.
  SimDevice* device(int index) const;
  /// Neither a link nor a script stands between them.
  bool peer(int from, int to) const { return !denies_peer(from, to) && links_.peer(from, to); }
  /// A script stands between them.
  bool denies_peer(int from, int to) const;

  void add_stream(SimStream* stream);
  void remove_stream(SimStream* stream);
  /// Executes ready operations, picked at random, until `done()`. Where only what hangs is left, its deadline
  /// passes if that is within `patience_s` (else false is returned): its device is lost then. Throws an
  /// internal Error where nothing is ready or hangs: the streams wait for events that are never recorded.
  bool run_until(const std::function<bool()>& done,
                 double patience_s = std::numeric_limits<double>::infinity());
  RaceChecker& checker() { return checker_; }
  ThreadPool& pool() { return pool_; }

 private:
  static constexpr std::uint64_t empty_order_hash = 1469598103934665603ull;  // FNV-1a

  bool expire_one(double patience_s);

  std::mt19937_64 random_;
  ThreadPool pool_;
  SimTopology topology_;
  SimLinks links_;
  FaultInjector faults_;
  SimMemory memory_;
  RaceChecker checker_;
  std::vector<SimDevice*> devices_;
  std::vector<std::string> faults_met_;
  std::vector<std::pair<int, int>> no_peers_;
  std::vector<SimStream*> streams_;
  std::uint64_t order_hash_ = empty_order_hash;
  double time_s_ = 0, host_time_s_ = 0;
};

/// A device of a sim set.
class SimDevice final : public Device {
 public:
  SimDevice(DeviceInfo info, std::shared_ptr<SimScheduler> world)
      : Device(std::move(info)), world_(std::move(world)) {
    world_->add_device(this);
  }
  ~SimDevice() override { world_->remove_device(this); }
  std::unique_ptr<Stream> create_stream(const std::string& name) override;
  std::uint64_t free_memory() override;
  void note_allocation(Stream& stream, const Allocation& allocation) override;
  std::string lost() const override { return lost_; }
  SimScheduler& world() { return *world_; }
  const std::shared_ptr<SimScheduler>& shared_world() { return world_; }
  /// When an operation that is ready at `ready_s` begins here, and how long it takes.
  std::pair<double, double> begin_and_duration(const Operation& operation, double ready_s);
  /// Lets an operation meet its fault: throws what it fails with, also where this device or another that it
  /// touches is lost. True where it hangs.
  bool meet_fault(const Operation& operation, const std::string& where);
  void lose(const std::string& why);
  void revive() { lost_.clear(); }

 protected:
  void* raw_allocate(Stream& stream, std::uint64_t bytes, const std::string& what) override;
  void raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                   std::function<void()> done) override;

 private:
  std::shared_ptr<SimScheduler> world_;
  std::pair<int, int> ends_of(const Operation& operation) const;
  [[noreturn]] void throw_lost(const std::string& what) const;

  std::string lost_;  ///< why; empty: it is there
  SimEngine engine_;
};

class SimStream final : public Stream {
 public:
  SimStream(SimDevice& device, std::string name);
  ~SimStream() override;

  void enqueue(Operation operation) override;
  Event record() override { return record(false); }
  Event record_timed() override { return record(true); }
  void wait(const Event& event) override;
  void synchronize() override;
  std::string error() override;

  /// Whether the item at the head can run now.
  bool is_ready() const;
  /// Runs the head. Returns "device/stream/operation", empty for records and waits.
  std::string step();
  double time_s() const { return time_s_; }
  /// In the race check.
  std::size_t index() const { return index_; }
  /// The head never ends.
  bool hangs() const { return hangs_; }
  /// The deadline of what hangs has passed.
  void expire(double deadline_s);

 private:
  struct Item {
    Operation operation;
    std::shared_ptr<SimEvent> signal, wait_for;
    double earliest_s = 0;  ///< the host's virtual time when this was enqueued
  };
  Event record(bool timed);
  void push(Item item);
  void run_operation(Operation& operation);
  std::string where() const { return device_.name() + "/" + name(); }
  void fail(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
  }

  SimDevice& device_;
  std::size_t index_;
  std::deque<Item> queue_;
  std::exception_ptr error_;
  std::string last_enqueued_, waited_for_;
  double time_s_ = 0;
  bool hangs_ = false;
};

}  // namespace shardwise
