#pragma once
// Copies through pinned memory of ours, for a CUDA stream: to and from pageable host memory, for which the
// driver would block the enqueuing thread or read the source too early, and between GPUs without peer access.
//
//   stream of the first step     fill piece 0   fill piece 1   fill piece 0 ...
//   stream of the second step                   drain piece 0  drain piece 1 ...
//
// One of the two is the stream itself, the other one is beside it, ordered by events before and after.
// Steps in host memory are host functions of the stream: they copy bytes and nothing else, so they never hold
// up the driver's thread for long. All that is enqueued can run: nothing here waits for another thread of
// ours.

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <map>

namespace shardwise {

/// Of one stream; used by the thread that enqueues on it. Copies take their place in the stream's order, and
/// read their source no earlier.
class CudaStager {
 public:
  CudaStager(int device, cudaStream_t stream) : device_(device), stream_(stream) {}
  /// Waits for the copies under way.
  ~CudaStager();
  CudaStager(const CudaStager&) = delete;
  CudaStager& operator=(const CudaStager&) = delete;

  void pageable_to_gpu(void* target, const void* source, std::uint64_t bytes);
  void gpu_to_pageable(void* target, const void* source, std::uint64_t bytes);
  /// Each half on a stream of its own GPU, one of which is the stream's.
  void gpu_to_gpu(void* target, int target_gpu, const void* source, int source_gpu, std::uint64_t bytes);
  void host_to_host(void* target, const void* source, std::uint64_t bytes);

  static constexpr std::uint64_t piece_bytes = 4 << 20;

 private:
  /// Bytes [offset, offset + bytes) between the caller's memory and a piece.
  using Step =
      std::function<void(cudaStream_t stream, void* piece, std::uint64_t offset, std::uint64_t bytes)>;
  struct Side {
    int gpu;
    cudaStream_t stream;
  };
  Side own() const { return {device_, stream_}; }
  /// Another stream, of any GPU.
  Side beside(int gpu);
  /// Where a step in host memory runs: one piece has nothing to overlap with.
  Side host_side(std::uint64_t bytes) { return bytes <= piece_bytes ? own() : beside(device_); }
  void copy(std::uint64_t bytes, Side filling, Side draining, const Step& fill, const Step& drain);

  int device_;
  cudaStream_t stream_;
  std::map<int, cudaStream_t> others_;
  void* pieces_[2] = {};
};

}  // namespace shardwise
