#pragma once
// A CUDA stream behind the Stream contract. Bodies only launch.
//
// Nothing is handed to the driver that waits for a thread of ours: a GPU, or the driver's lock, that is held
// up by host work could hold up the very thread that does it. So where the stream is to wait for host work,
// or for a point of another CUDA stream that is held up itself, what comes next is queued here, and a helper
// thread waits on the host and enqueues it then. With nothing queued the calling thread enqueues itself;
// streams that wait for CUDA streams only never have a helper.
//
// enqueue(), record() and wait() come from one thread at a time. Invariants: either that thread or the helper
// enqueues on the native stream, the helper exactly while something is queued; items leave the queue in
// order. error_ is guarded by mutex_; the rest belongs to whoever enqueues.

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_event.hpp"
#include "runtime/cuda/cuda_stager.hpp"

namespace shardwise {

class CudaLaunchContext final : public LaunchContext {
 public:
  CudaLaunchContext(CudaDevice& device, cudaStream_t stream, CudaStager& stager)
      : device_(device), stream_(stream), stager_(stager) {}
  Device& device() override { return device_; }
  void* native_stream() override { return stream_; }
  CudaStager& stager() { return stager_; }
  void parallel_for(std::int64_t, std::int64_t, const RangeFunction&) override { no_host_code(); }
  void execute(const std::function<void()>&) override { no_host_code(); }

 private:
  [[noreturn]] void no_host_code();

  CudaDevice& device_;
  cudaStream_t stream_;
  CudaStager& stager_;
};

class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice& device, std::string name);
  ~CudaStream() override;

  void enqueue(Operation operation) override;
  Event record() override { return record(false); }
  Event record_timed() override { return record(true); }
  void wait(const Event& event) override;
  void synchronize() override;
  std::string error() override;
  cudaStream_t native() const { return stream_; }

 private:
  struct Timed {
    std::string name, waited_for;
    OperationKind kind;
    std::uint64_t bytes;
    std::shared_ptr<CudaEvent> begin, end;
  };
  struct Item {
    Operation operation;
    std::shared_ptr<CudaEvent> signal;     ///< set: a record
    std::shared_ptr<EventState> wait_for;  ///< set: a wait
  };
  Event record(bool timed);
  /// Whether what comes next has to be queued.
  bool is_held_up();
  void push(Item item);
  void run_helper();
  void run_item(Item& item);
  /// On the native stream, now.
  void enqueue_now(Operation& operation);
  void wait_now(EventState& event);
  void launch(Operation& operation);
  void mark_origin();
  void flush_timeline();
  bool has_error();
  void fail(std::exception_ptr error);

  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CudaStager> stager_;
  std::string last_enqueued_;  ///< the calling thread's
  std::string waited_for_;
  std::shared_ptr<CudaEvent> origin_;                  ///< device time ...
  std::chrono::steady_clock::time_point origin_time_;  ///< ... and the host's clock at the same moment
  std::vector<Timed> timed_;

  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::deque<Item> queue_;
  bool busy_ = false, stopping_ = false;
  std::exception_ptr error_;
  std::thread helper_;  ///< started when it is first needed
};

}  // namespace shardwise
