#include "jobs/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise {
namespace {

constexpr std::uint64_t kPage = 4096, kLeastBytes = std::uint64_t{1} << 20;
/// What is kept from a larger job for the next one.
constexpr std::uint64_t kKeptBytes = std::uint64_t{64} << 20;

std::uint64_t pages(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

/// What the system says is free; the kernel would sooner end a process than refuse pages.
std::uint64_t free_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::uint64_t kib = 0;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") return std::min(kib * 1024, available_memory());
    std::getline(file, unit);
  }
  return available_memory();
}

[[noreturn]] void fail(std::uint64_t bytes, const char* call, int reason) {
  throw Error(ErrorClass::memory, fmt::format("no {} of memory to share with a worker process ({}: {})",
                                              human_bytes(bytes), call, std::strerror(reason)));
}

}  // namespace

SharedMemory::SharedMemory() : file_(memfd_create("shardwise jobs", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (file_ < 0) fail(0, "memfd_create", errno);
  // A page that goes under a reader's feet would end the reader. Without this the other end is only trusted.
  (void)fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK);
}

SharedMemory::~SharedMemory() {
  if (data_) munmap(data_, size_);
  if (file_ >= 0) close(file_);
}

void SharedMemory::remap(std::uint64_t size) {
  void* const mapped = data_ ? mremap(data_, size_, size, MREMAP_MAYMOVE)
                             : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) fail(size, "mmap", errno);
  data_ = static_cast<std::byte*>(mapped);
  size_ = size;
}

void SharedMemory::reserve(std::uint64_t bytes) {
  const std::uint64_t wanted = pages(bytes);
  if (wanted < bytes) fail(bytes, "reserve", EOVERFLOW);
  if (wanted > held_ + kKeptBytes && wanted - held_ > free_bytes())
    throw Error(ErrorClass::memory,
                fmt::format("its inputs and outputs take {} of memory to share with its worker process, and "
                            "{} are free",
                            human_bytes(wanted), human_bytes(free_bytes())));
  if (wanted > size_) {
    const std::uint64_t size = std::max({wanted, kLeastBytes, std::min(2 * size_, wanted + kKeptBytes)});
    if (ftruncate(file_, static_cast<off_t>(size)) != 0) fail(size, "ftruncate", errno);
    remap(size);
  }
  if (wanted > held_) {
    // Promised now: a page that is not there when it is written would end the process.
    int error = 0;
    do error = posix_fallocate(file_, static_cast<off_t>(held_), static_cast<off_t>(wanted - held_));
    while (error == EINTR);
    if (error != 0) fail(wanted, "fallocate", error);
    held_ = wanted;
  } else if (held_ > kKeptBytes && wanted < held_ / 4) {
    const std::uint64_t kept = std::max(wanted, kKeptBytes / 4);
    if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(kept),
                  static_cast<off_t>(held_ - kept)) == 0)
      held_ = kept;
  }
}

void SharedMemory::map(std::uint64_t size) {
  if (size == size_) return;
  struct stat info = {};
  if (fstat(file_, &info) != 0 || info.st_size < 0 || static_cast<std::uint64_t>(info.st_size) < size)
    throw Error(ErrorClass::internal,
                fmt::format("jobs in worker processes: the shared memory has {} bytes, not {}",
                            static_cast<long long>(info.st_size), size));
  if (size < size_)
    throw Error(
        ErrorClass::internal,
        fmt::format("jobs in worker processes: the shared memory shrank from {} to {} bytes", size_, size));
  remap(size);
}

}  // namespace shardwise
