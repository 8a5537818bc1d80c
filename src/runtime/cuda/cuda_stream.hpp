#pragma once
// A CUDA stream behind the Stream contract. Bodies run on the enqueuing thread and only launch.

#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "runtime/cuda/cuda_device.hpp"

namespace shardwise {

/// Set by a host stream's worker when host work that CUDA work is queued behind has failed: CUDA work cannot
/// be dropped once it is enqueued, so what is behind it counts as failed, and its results are not handed out.
using UpstreamFailure = std::shared_ptr<std::atomic<bool>>;

/// Events with timing come from a pool of the process, which keeps some for each GPU: making one costs more
/// than what it times often does.
class CudaEvent final : public EventState {
 public:
  CudaEvent(int device, bool timed);
  ~CudaEvent() override;
  void wait_on_host() override;
  bool is_signalled() override;
  bool failed() override;
  double seconds_since(EventState& earlier) override;
  cudaEvent_t native() const { return event_; }

  bool behind_error = false;              ///< recorded behind an error
  std::vector<UpstreamFailure> upstream;  ///< host work it is behind

 private:
  int device_;
  bool timed_;
  cudaEvent_t event_ = nullptr;
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
  class PinnedWords;
  Event record(bool timed);
  void wait_for_host_event(const Event& event);
  void add_upstream(const UpstreamFailure& failure);
  bool upstream_failed() const;
  void mark_origin();
  void flush_timeline();
  void fail(std::exception_ptr error) {
    if (!error_) error_ = std::move(error);
  }

  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  std::exception_ptr error_;
  std::vector<UpstreamFailure> upstream_;
  std::string last_enqueued_, waited_for_;
  std::shared_ptr<CudaEvent> origin_;                  ///< device time ...
  std::chrono::steady_clock::time_point origin_time_;  ///< ... and the host's clock at the same moment
  std::vector<Timed> timed_;
  std::vector<std::shared_ptr<PinnedWords>> words_;  ///< that host events set and this stream polls
  std::size_t words_used_ = 0;                       ///< of the last block
};

}  // namespace shardwise
