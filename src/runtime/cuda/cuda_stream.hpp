#pragma once
// A CUDA stream behind the Stream contract. Bodies run on the enqueuing thread and only launch.

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <vector>

#include "runtime/cuda/cuda_device.hpp"

namespace shardwise {

class CudaEvent final : public EventState {
 public:
  CudaEvent(int device, bool timed);
  ~CudaEvent() override;
  void wait_on_host() override;
  bool is_signalled() override;
  cudaEvent_t native() const { return event_; }
  bool failed = false;  ///< recorded behind an error

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  CudaStream(CudaDevice& device, std::string name);
  ~CudaStream() override;

  void enqueue(Operation operation) override;
  Event record() override;
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
  void wait_for_host_event(const Event& event);
  void flush_timeline();
  void fail(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
  }

  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  std::exception_ptr error_;
  std::atomic<bool> upstream_failed_{false};
  std::string last_enqueued_, waited_for_;
  std::shared_ptr<CudaEvent> origin_;        ///< device time ...
  std::chrono::steady_clock::time_point origin_time_;  ///< ... and the host's clock at the same moment
  std::vector<Timed> timed_;
  std::vector<void*> flags_;                 ///< pinned words that host events set
};

}  // namespace shardwise
