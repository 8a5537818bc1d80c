#include "runtime/cuda/cuda_device.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/cuda/cuda_copy.hpp"
#include "runtime/cuda/cuda_known_memory.hpp"
#include "runtime/cuda/cuda_stream.hpp"
#include "runtime/cuda_code.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

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
  return std::min(count, max_cuda_devices);
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
  CudaCapability capability;
  SW_CUDA(cudaDeviceGetAttribute(&capability.major, cudaDevAttrComputeCapabilityMajor, index));
  SW_CUDA(cudaDeviceGetAttribute(&capability.minor, cudaDevAttrComputeCapabilityMinor, index));
  require_cuda_code(info, capability, SHARDWISE_CUDA_ARCHITECTURES, cuda_has_code);
  cudaMemPool_t pool{};
  SW_CUDA(cudaDeviceGetDefaultMemPool(&pool, index));
  std::uint64_t keep = ~0ull;
  SW_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  note_gpu_opened();
  return std::make_shared<CudaDevice>(info, index, pool);
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
  note_known_memory(pointer, bytes, {KnownMemory::pinned_host});
  return pointer;
}

void cuda_release_pinned(void* pointer) noexcept {
  std::lock_guard lock(pinned_mutex);
  pinned_free.emplace(pinned_sizes.at(pointer), pointer);
}

std::unique_ptr<Stream> CudaDevice::create_stream(const std::string& name) {
  return std::make_unique<CudaStream>(*this, name);
}

namespace {

/// What the device's pool keeps for us, used by nobody: free to us.
std::uint64_t idle_in_pool(cudaMemPool_t pool) {
  std::uint64_t reserved = 0, used = 0;
  SW_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  SW_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  return reserved - used;
}

}  // namespace

std::uint64_t CudaDevice::free_memory() {
  return free_memory_if_below(std::numeric_limits<std::uint64_t>::max());
}

std::uint64_t CudaDevice::free_memory_if_below(std::uint64_t enough) {
  const std::uint64_t idle = idle_in_pool(pool_);
  if (idle >= enough) return idle;
  CurrentCudaDevice current(index_);
  std::size_t free_bytes = 0, total = 0;
  SW_CUDA(cudaMemGetInfo(&free_bytes, &total));
  return free_bytes + idle;
}

void* CudaDevice::raw_allocate(Stream& stream, std::uint64_t bytes, const std::string&) {
  // From the pool of the stream's device, whichever device is current; but the call fails where that one's
  // context has died.
  const CurrentCudaDevice current(index_);
  void* pointer = nullptr;
  const cudaError_t code = cudaMallocAsync(&pointer, bytes, dynamic_cast<CudaStream&>(stream).native());
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  SW_CUDA(code);
  note_known_memory(pointer, bytes, {index_});
  return pointer;
}

void CudaDevice::raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                             std::function<void()> done) {
  forget_known_memory(pointer);
  Operation operation;
  operation.name = "release";
  operation.kind = OperationKind::release;
  Access access;
  access.resource = resource;
  access.length = bytes;
  access.mode = AccessMode::write;
  operation.accesses = {access};
  operation.body = [pointer, done = std::move(done)](LaunchContext& context) {
    if (cudaFreeAsync(pointer, static_cast<cudaStream_t>(context.native_stream())) != cudaSuccess)
      cudaGetLastError();
    // From here on the pool may hand the bytes to whatever is ordered behind.
    done();
  };
  stream.enqueue(std::move(operation));
}

}  // namespace shardwise
