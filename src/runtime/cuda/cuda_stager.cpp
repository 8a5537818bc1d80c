#include "runtime/cuda/cuda_stager.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

struct HostCopy {
  void* target;
  const void* source;
  std::uint64_t bytes;
};

void CUDART_CB run_host_copy(void* data) {
  const std::unique_ptr<HostCopy> copy(static_cast<HostCopy*>(data));
  std::memcpy(copy->target, copy->source, copy->bytes);
}

void launch_host_copy(cudaStream_t stream, void* target, const void* source, std::uint64_t bytes) {
  auto copy = std::make_unique<HostCopy>(HostCopy{target, source, bytes});
  SW_CUDA(cudaLaunchHostFunc(stream, run_host_copy, copy.get()));
  // The host function's now. A lost device never calls it: that leaks these few bytes.
  copy.release();
}

std::byte* at(void* memory, std::uint64_t offset) {
  return static_cast<std::byte*>(memory) + offset;
}
const std::byte* at(const void* memory, std::uint64_t offset) {
  return static_cast<const std::byte*>(memory) + offset;
}

/// Destroying it does not disturb who waits for what it was recorded behind.
class LocalEvent {
 public:
  explicit LocalEvent(int gpu) {
    CurrentCudaDevice current(gpu);
    SW_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~LocalEvent() {
    if (cudaEventDestroy(event_) != cudaSuccess) cudaGetLastError();  // of a lost device
  }
  LocalEvent(const LocalEvent&) = delete;
  LocalEvent& operator=(const LocalEvent&) = delete;
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

void order(cudaStream_t first, cudaStream_t second, const LocalEvent& event_of_first) {
  if (first == second) return;
  SW_CUDA(cudaEventRecord(event_of_first.native(), first));
  SW_CUDA(cudaStreamWaitEvent(second, event_of_first.native(), 0));
}

}  // namespace

CudaStager::~CudaStager() {
  if (!others_.empty()) cudaStreamSynchronize(stream_);
  for (const auto& [gpu, stream] : others_) {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  for (void* piece : pieces_)
    if (piece) cuda_release_pinned(piece);
  cudaGetLastError();  // of a lost device: there is nobody to tell here
}

CudaStager::Side CudaStager::beside(int gpu) {
  cudaStream_t& stream = others_[gpu];
  if (!stream) {
    CurrentCudaDevice current(gpu);
    SW_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  return {gpu, stream};
}

void CudaStager::copy(std::uint64_t bytes, Side filling, Side draining, const Step& fill, const Step& drain) {
  for (void*& piece : pieces_) {
    if (!piece) piece = cuda_allocate_pinned(piece_bytes);
    if (!piece)
      throw Error(ErrorClass::memory,
                  "cuda:" + std::to_string(device_) + ": no pinned host memory for copies (" +
                      std::to_string(piece_bytes) +
                      " bytes asked for); free host memory, or raise the limit of locked memory");
  }
  if (filling.stream == stream_ && draining.stream == stream_) {
    for (std::uint64_t offset = 0; offset < bytes; offset += piece_bytes) {
      const std::uint64_t count = std::min(piece_bytes, bytes - offset);
      fill(stream_, pieces_[0], offset, count);
      drain(stream_, pieces_[0], offset, count);
    }
    return;
  }
  const LocalEvent before(device_), after_filling(filling.gpu), after_draining(draining.gpu);
  const LocalEvent filled(filling.gpu), drained_first(draining.gpu), drained_second(draining.gpu);
  order(stream_, filling.stream, before);
  order(stream_, draining.stream, before);
  const auto join = [&] {
    order(filling.stream, stream_, after_filling);
    order(draining.stream, stream_, after_draining);
  };
  int next = 0;
  try {
    for (std::uint64_t offset = 0; offset < bytes; offset += piece_bytes) {
      void* piece = pieces_[next];
      const LocalEvent& drained = next == 0 ? drained_first : drained_second;
      next = 1 - next;
      const std::uint64_t count = std::min(piece_bytes, bytes - offset);
      // Two pieces ago; not recorded the first time, which is no wait: the stream's order covers copies
      // before.
      SW_CUDA(cudaStreamWaitEvent(filling.stream, drained.native(), 0));
      fill(filling.stream, piece, offset, count);
      order(filling.stream, draining.stream, filled);
      drain(draining.stream, piece, offset, count);
      SW_CUDA(cudaEventRecord(drained.native(), draining.stream));
    }
  } catch (...) {
    // What was enqueued beside still belongs to this stream's order: who waits for it must not free what that
    // uses.
    try {
      join();
    } catch (const Error&) {  // the first error is the one to tell
    }
    throw;
  }
  join();
}

void CudaStager::pageable_to_gpu(void* target, const void* source, std::uint64_t bytes) {
  copy(
      bytes, host_side(bytes), own(),
      [source](cudaStream_t stream, void* piece, std::uint64_t offset, std::uint64_t count) {
        launch_host_copy(stream, piece, at(source, offset), count);
      },
      [target](cudaStream_t stream, void* piece, std::uint64_t offset, std::uint64_t count) {
        SW_CUDA(cudaMemcpyAsync(at(target, offset), piece, count, cudaMemcpyDefault, stream));
      });
}

void CudaStager::gpu_to_pageable(void* target, const void* source, std::uint64_t bytes) {
  copy(
      bytes, own(), host_side(bytes),
      [source](cudaStream_t stream, void* piece, std::uint64_t offset, std::uint64_t count) {
        SW_CUDA(cudaMemcpyAsync(piece, at(source, offset), count, cudaMemcpyDefault, stream));
      },
      [target](cudaStream_t stream, void* piece, std::uint64_t offset, std::uint64_t count) {
        launch_host_copy(stream, at(target, offset), piece, count);
      });
}

void CudaStager::gpu_to_gpu(void* target, int target_gpu, const void* source, int source_gpu,
                            std::uint64_t bytes) {
  const auto side = [this](int gpu) { return gpu == device_ ? own() : beside(gpu); };
  copy(
      bytes, side(source_gpu), side(target_gpu),
      [source](cudaStream_t stream, void* piece, std::uint64_t offset, std::uint64_t count) {
        SW_CUDA(cudaMemcpyAsync(piece, at(source, offset), count, cudaMemcpyDefault, stream));
      },
      [target](cudaStream_t stream, void* piece, std::uint64_t offset, std::uint64_t count) {
        SW_CUDA(cudaMemcpyAsync(at(target, offset), piece, count, cudaMemcpyDefault, stream));
      });
}

void CudaStager::host_to_host(void* target, const void* source, std::uint64_t bytes) {
  launch_host_copy(stream_, target, source, bytes);
}

}  // namespace shardwise
