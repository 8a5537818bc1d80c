#pragma once
// A point in a CUDA stream. A stream may come to record it later than it was asked to (cuda_stream.hpp):
// until then the event is neither recorded nor signalled. Thread-safe.

#include <cuda_runtime.h>

#include <atomic>

#include "shardwise/runtime/stream.hpp"

namespace shardwise {

/// Events come from a pool of the process, which keeps some for each GPU: making one costs more than
/// recording it.
class CudaEvent final : public EventState {
 public:
  CudaEvent(int device, bool timed);
  ~CudaEvent() override;
  void wait_on_host() override;
  bool is_signalled() override;
  bool failed() override;
  double seconds_since(EventState& earlier) override;

  /// Records it on its stream, once. `behind_error`: what it stands behind has failed. Throws what CUDA
  /// reports; it counts as recorded, signalled and failed then, so that nobody waits for ever.
  void record(cudaStream_t stream, bool behind_error);
  bool is_recorded() const { return state_.load() != State::waiting; }
  /// Blocks until the stream has come to record it.
  void wait_until_recorded() const { state_.wait(State::waiting); }
  /// Once recorded: whether it was known then that what it stands behind had failed.
  bool is_behind_error() const { return state_.load() == State::failed; }
  cudaEvent_t native() const { return event_; }

 private:
  enum class State : int { waiting, recorded, failed };
  int device_;
  bool timed_;
  cudaEvent_t event_ = nullptr;
  std::atomic<State> state_{State::waiting};
};

}  // namespace shardwise
