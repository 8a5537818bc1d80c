#include "runtime/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_copy.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

constexpr int max_gpus = 64;
using PairTable = std::array<std::array<std::atomic<bool>, max_gpus>, max_gpus>;
PairTable staged_pairs, probed_pairs;  ///< [source][target]; a pair is probed once a process

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

DeviceInfo describe(int index) {
  cudaDeviceProp properties{};
  SW_CUDA(cudaGetDeviceProperties(&properties, index));
  char bus_id[32] = {};
  SW_CUDA(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index));
  DeviceInfo info;
  info.kind = PlatformKind::cuda;
  info.index = index;
  info.name = fmt::format("cuda:{}", index);
  info.model = properties.name;
  info.uuid = uuid_text(properties.uuid);
  info.bus_id = bus_id;
  info.architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
  info.memory_bytes = properties.totalGlobalMem;
  info.threads = 1;
  return info;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

int cuda_device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return std::min(count, max_gpus);
}

std::vector<int> cuda_select(const std::string& part, const std::string& arguments) {
  const int count = cuda_device_count();
  if (count == 0)
    throw_usage(fmt::format("devices: '{}' asks for a GPU, but no CUDA device answers; use host:N", part));
  std::vector<int> result;
  if (arguments.empty()) {
    for (int i = 0; i < count; ++i) result.push_back(i);
    return result;
  }
  if (arguments.back() == ',')
    throw_usage(fmt::format("devices: '{}' ends in a comma; name one more GPU", part));
  std::stringstream list(arguments);
  for (std::string item; std::getline(list, item, ',');) {
    int found = -1;
    for (int i = 0; i < count; ++i) {
      const DeviceInfo info = describe(i);
      if (item == std::to_string(i) || lower(item) == lower(info.uuid) || lower(item) == lower(info.bus_id))
        found = i;
    }
    if (found < 0)
      throw_usage(
          fmt::format("devices: '{}' in '{}' is no GPU here; there are {}: use cuda:0{}, a UUID or a bus id",
                      item, part, count, count > 1 ? fmt::format("..{}", count - 1) : ""));
    result.push_back(found);
  }
  return result;
}

std::shared_ptr<Device> open_cuda_device(int index) {
  const DeviceInfo info = describe(index);
  CurrentCudaDevice current(index);
  if (!cuda_has_code())
    throw_usage(
        fmt::format("{} ({}) is {}, for which this build holds no code; configure with "
                    "-DCMAKE_CUDA_ARCHITECTURES={}",
                    info.name, info.model, info.architecture, info.architecture.substr(3)));
  cudaMemPool_t pool{};
  SW_CUDA(cudaDeviceGetDefaultMemPool(&pool, index));
  std::uint64_t keep = ~0ull;
  SW_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  note_gpu_opened();
  return std::make_shared<CudaDevice>(info, index);
}

namespace {

/// Pinned blocks that were released, by size. They are kept: cudaFreeHost waits for every GPU, and a GPU may
/// be waiting for the very host thread that releases.
std::mutex pinned_mutex;
std::multimap<std::uint64_t, void*> pinned_free;
std::map<void*, std::uint64_t> pinned_sizes;

}  // namespace

void* cuda_allocate_pinned(std::uint64_t bytes) noexcept {
  std::lock_guard lock(pinned_mutex);
  const auto fit = pinned_free.lower_bound(bytes);
  if (fit != pinned_free.end() && fit->first <= 2 * bytes + 4096) {
    void* pointer = fit->second;
    pinned_free.erase(fit);
    return pointer;
  }
  void* pointer = nullptr;
  if (cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  pinned_sizes[pointer] = bytes;
  return pointer;
}

void cuda_release_pinned(void* pointer) noexcept {
  std::lock_guard lock(pinned_mutex);
  pinned_free.emplace(pinned_sizes.at(pointer), pointer);
}

bool cuda_pair_is_staged(int source, int target) noexcept {
  return staged_pairs[static_cast<std::size_t>(source)][static_cast<std::size_t>(target)];
}

namespace {

/// Copies a pattern from one GPU to another and compares it. Throws what CUDA reports.
bool pattern_arrives(CudaDevice& source, CudaDevice& target) {
  const std::size_t count = 1 << 14;
  std::vector<std::uint32_t> pattern(count), seen(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    pattern[i] = static_cast<std::uint32_t>(i * 2654435761u + source.index());
  void *from = nullptr, *to = nullptr;
  bool equal = false;
  {
    CurrentCudaDevice current(source.index());
    SW_CUDA(cudaMalloc(&from, count * 4));
    SW_CUDA(cudaMemcpy(from, pattern.data(), count * 4, cudaMemcpyHostToDevice));
  }
  {
    CurrentCudaDevice current(target.index());
    SW_CUDA(cudaMalloc(&to, count * 4));
    SW_CUDA(cudaMemset(to, 0, count * 4));
    SW_CUDA(cudaMemcpyPeer(to, target.index(), from, source.index(), count * 4));
    SW_CUDA(cudaMemcpy(seen.data(), to, count * 4, cudaMemcpyDeviceToHost));
    equal = seen == pattern;
    SW_CUDA(cudaFree(to));
  }
  CurrentCudaDevice current(source.index());
  SW_CUDA(cudaFree(from));
  return equal;
}

void allow_peer(CudaDevice& source, CudaDevice& target) {
  CurrentCudaDevice current(target.index());
  const cudaError_t code = cudaDeviceEnablePeerAccess(source.index(), 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();
  else
    SW_CUDA(code);
  cudaMemPool_t pool{};
  SW_CUDA(cudaDeviceGetDefaultMemPool(&pool, source.index()));
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = target.index();
  access.flags = cudaMemAccessFlagsProtReadWrite;
  SW_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
}

}  // namespace

void probe_cuda_peers(const std::vector<std::shared_ptr<Device>>& devices, bool require_peer,
                      std::vector<std::string>& warnings) {
  std::vector<std::string> staged;
  for (const auto& a : devices)
    for (const auto& b : devices) {
      auto* source = dynamic_cast<CudaDevice*>(a.get());
      auto* target = dynamic_cast<CudaDevice*>(b.get());
      if (!source || !target || source == target) continue;
      const auto from = static_cast<std::size_t>(source->index()),
                 to = static_cast<std::size_t>(target->index());
      if (!probed_pairs[from][to]) {
        int can = 0;
        SW_CUDA(cudaDeviceCanAccessPeer(&can, target->index(), source->index()));
        if (can) allow_peer(*source, *target);
        staged_pairs[from][to] = !can || !pattern_arrives(*source, *target);
        probed_pairs[from][to] = true;
      }
      if (staged_pairs[from][to]) staged.push_back(fmt::format("{} to {}", source->name(), target->name()));
    }
  if (staged.empty()) return;
  const std::string text = fmt::format("no working peer access {}", fmt::join(staged, ", "));
  if (require_peer)
    throw_usage("devices: " + text + "; drop --require-peer to copy through pinned host memory");
  warnings.push_back(text + ": copies go through pinned host memory");
}

std::unique_ptr<Stream> CudaDevice::create_stream(const std::string& name) {
  return std::make_unique<CudaStream>(*this, name);
}

std::uint64_t CudaDevice::free_memory() {
  CurrentCudaDevice current(index_);
  std::size_t free_bytes = 0, total = 0;
  SW_CUDA(cudaMemGetInfo(&free_bytes, &total));
  // What the pool keeps for us is free to us.
  cudaMemPool_t pool{};
  SW_CUDA(cudaDeviceGetDefaultMemPool(&pool, index_));
  std::uint64_t reserved = 0, used = 0;
  SW_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  SW_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  return free_bytes + (reserved - used);
}

void* CudaDevice::raw_allocate(Stream& stream, std::uint64_t bytes) {
  CurrentCudaDevice current(index_);
  void* pointer = nullptr;
  const cudaError_t code = cudaMallocAsync(&pointer, bytes, dynamic_cast<CudaStream&>(stream).native());
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  SW_CUDA(code);
  return pointer;
}

void CudaDevice::raw_release(Stream& stream, void* pointer, ResourceId, std::uint64_t,
                             std::function<void()> done) {
  CurrentCudaDevice current(index_);
  if (cudaFreeAsync(pointer, dynamic_cast<CudaStream&>(stream).native()) != cudaSuccess) cudaGetLastError();
  // From here on the pool may hand the bytes to whatever is ordered behind.
  done();
}

}  // namespace shardwise
