#include "runtime/host/host_device.hpp"

#include <cstdlib>
#include <fstream>

#include "runtime/host/host_stream.hpp"

namespace shardwise {

HostDevice::HostDevice(DeviceInfo info, std::uint64_t memory_limit, HostAllocator allocator)
    : Device(std::move(info)),
      pool_(this->info().threads),
      memory_limit_(memory_limit),
      allocator_(allocator) {}

std::unique_ptr<Stream> HostDevice::create_stream(const std::string& name) {
  return std::make_unique<HostStream>(*this, name);
}

std::uint64_t HostDevice::free_memory() {
  const std::uint64_t used = memory(MemoryUse::work).current() + memory(MemoryUse::scene).current();
  return used < memory_limit_ ? memory_limit_ - used : 0;
}

void* HostDevice::raw_allocate(Stream&, std::uint64_t bytes, const std::string&) {
  if (bytes > free_memory()) return nullptr;
  return allocator_.allocate(bytes);
}

void HostDevice::raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                             std::function<void()> done) {
  stream.enqueue(release_operation(pointer, allocator_.release, resource, bytes, std::move(done)));
}

Operation release_operation(void* pointer, void (*release)(void*) noexcept, ResourceId resource,
                            std::uint64_t bytes, std::function<void()> done) {
  Operation operation;
  operation.name = "release";
  operation.kind = OperationKind::release;
  Access access;
  access.resource = resource;
  access.length = bytes;
  access.mode = AccessMode::write;
  operation.accesses = {access};
  operation.body = [pointer, release, done = std::move(done)](LaunchContext&) {
    release(pointer);
    done();
  };
  return operation;
}

void* allocate_host_bytes(std::uint64_t bytes) noexcept {
  const std::uint64_t alignment = 64;
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void release_host_bytes(void* pointer) noexcept {
  std::free(pointer);
}

std::string host_model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace shardwise
