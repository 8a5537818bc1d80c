#include "runtime/cuda/cuda_peer.hpp"

#include <cstdint>
#include <mutex>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/peer_table.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

PeerTable<max_cuda_devices> pairs;
std::mutex probe_mutex;

constexpr std::size_t probe_words = 1 << 14;

/// `out` gets what a kernel on one GPU reads on another, and the other's memory gets the inverse.
__global__ void reach(std::uint32_t* other, std::uint32_t* out) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i >= probe_words) return;
  out[i] = other[i];
  other[i] = ~other[i];
}

/// A stream of one GPU with words from the pool that Buffer uses too.
class ProbeSide {
 public:
  explicit ProbeSide(int device) : device_(device) {
    CurrentCudaDevice current(device_);
    SW_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    void* memory = nullptr;
    const cudaError_t code = cudaMallocAsync(&memory, bytes, stream_);
    if (code != cudaSuccess) cudaStreamDestroy(stream_);
    SW_CUDA(code);
    words_ = static_cast<std::uint32_t*>(memory);
  }
  ~ProbeSide() {
    int previous = 0;
    cudaGetDevice(&previous);
    cudaSetDevice(device_);
    cudaFreeAsync(words_, stream_);
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaSetDevice(previous);
    cudaGetLastError();
  }
  ProbeSide(const ProbeSide&) = delete;
  ProbeSide& operator=(const ProbeSide&) = delete;

  void write(const std::vector<std::uint32_t>& values) {
    CurrentCudaDevice current(device_);
    SW_CUDA(cudaMemcpyAsync(words_, values.data(), bytes, cudaMemcpyHostToDevice, stream_));
    SW_CUDA(cudaStreamSynchronize(stream_));
  }
  std::vector<std::uint32_t> read() {
    CurrentCudaDevice current(device_);
    std::vector<std::uint32_t> values(probe_words);
    SW_CUDA(cudaMemcpyAsync(values.data(), words_, bytes, cudaMemcpyDeviceToHost, stream_));
    SW_CUDA(cudaStreamSynchronize(stream_));
    return values;
  }
  void copy_from(const ProbeSide& other) {
    CurrentCudaDevice current(device_);
    SW_CUDA(cudaMemsetAsync(words_, 0, bytes, stream_));
    SW_CUDA(cudaMemcpyAsync(words_, other.words_, bytes, cudaMemcpyDefault, stream_));
    SW_CUDA(cudaStreamSynchronize(stream_));
  }
  void reach_into(const ProbeSide& other) {
    CurrentCudaDevice current(device_);
    SW_CUDA(cudaMemsetAsync(words_, 0, bytes, stream_));
    reach<<<probe_words / 256, 256, 0, stream_>>>(other.words_, words_);
    SW_CUDA(cudaGetLastError());
    SW_CUDA(cudaStreamSynchronize(stream_));
  }

 private:
  static constexpr std::size_t bytes = probe_words * sizeof(std::uint32_t);
  int device_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* words_ = nullptr;
};

void allow_peer(int source, int target) {
  CurrentCudaDevice current(target);
  const cudaError_t code = cudaDeviceEnablePeerAccess(source, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();
  else
    SW_CUDA(code);
  cudaMemPool_t pool{};
  SW_CUDA(cudaDeviceGetDefaultMemPool(&pool, source));
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = target;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  SW_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
}

/// Whether `target` really reaches the memory of `source`. Throws only where a GPU is lost.
bool pair_works(int source, int target) {
  int can = 0;
  SW_CUDA(cudaDeviceCanAccessPeer(&can, target, source));
  if (!can) return false;
  try {
    allow_peer(source, target);
    ProbeSide from(source), to(target);
    return brings_pattern(from, to, source, target, probe_words);
  } catch (const Error& error) {
    if (error.error_class() == ErrorClass::lost) throw;
    return false;  // the pair has no peer access after all: too many peers, say
  }
}

}  // namespace

void probe_cuda_peers(const std::vector<std::shared_ptr<Device>>& devices, bool require_peer,
                      std::vector<std::string>& warnings) {
  std::lock_guard lock(probe_mutex);
  std::vector<PeerTable<max_cuda_devices>::Member> members;
  for (const auto& device : devices)
    if (const auto* gpu = dynamic_cast<const CudaDevice*>(device.get()))
      members.push_back({gpu->index(), gpu->name()});
  pairs.probe(members, require_peer, pair_works, warnings);
}

bool cuda_pair_is_staged(int source, int target) noexcept {
  return pairs.staged(source, target);
}

void set_cuda_pair_staged(int source, int target, bool staged) noexcept {
  pairs.set(source, target, staged);
}

CudaLink cuda_link(int source, int target) {
  CudaLink link;
  int atomics = 0;
  SW_CUDA(cudaDeviceGetP2PAttribute(&link.performance_rank, cudaDevP2PAttrPerformanceRank, target, source));
  SW_CUDA(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, target, source));
  link.native_atomics = atomics != 0;
  return link;
}

}  // namespace shardwise
