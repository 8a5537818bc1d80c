#include "runtime/sim/sim_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <vector>

#include "runtime/host/host_device.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#endif

namespace shardwise {

#if defined(__linux__)

/// The guarded memories of this process, for the one signal handler. A fault comes from an operation's body,
/// which never holds the lock, so the handler may wait for it.
struct GuardRegistry {
  static GuardRegistry& get() {
    static GuardRegistry registry;
    return registry;
  }
  void add(SimMemory* memory) {
    lock();
    memories.push_back(memory);
    if (!installed) {
      installed = true;
      struct sigaction action {};
      action.sa_sigaction = &GuardRegistry::on_signal;
      action.sa_flags = SA_SIGINFO | SA_NODEFER;
      sigemptyset(&action.sa_mask);
      sigaction(SIGSEGV, &action, &previous);
    }
    unlock();
  }
  void remove(SimMemory* memory) {
    lock();
    std::erase(memories, memory);
    unlock();
  }
  void lock() {
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { busy.clear(std::memory_order_release); }

 private:
  static bool is_write([[maybe_unused]] void* context) {
#if defined(__x86_64__)
    // Bit 1 of the page fault's error code: a write (Intel SDM vol. 3, 4.7).
    return (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    return false;
#endif
  }
  static void on_signal(int signal, siginfo_t* info, void* context) {
    GuardRegistry& registry = get();
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const bool writes = is_write(context);
    bool ours = false;
    registry.lock();
    for (SimMemory* memory : registry.memories) ours = ours || memory->on_fault(address, writes);
    registry.unlock();
    if (ours) return;
    // Somebody else's fault: as it would have been without us.
    const struct sigaction& previous = registry.previous;
    if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction) {
      previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN && previous.sa_handler) {
      previous.sa_handler(signal);
    } else {
      std::signal(SIGSEGV, SIG_DFL);  // the instruction runs again, and ends the process
    }
  }

  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  std::vector<SimMemory*> memories;
  bool installed = false;
  struct sigaction previous {};
};

namespace {

std::uint64_t pages(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

SimMemory::SimMemory(bool guarded, bool dry) : guarded_(guarded), dry_(dry) {
  if (guarded_) GuardRegistry::get().add(this);
}

SimMemory::~SimMemory() {
  if (guarded_) GuardRegistry::get().remove(this);
  // Owners release what they hold before their devices go; what is left was leaked by a lost stream.
  for (auto& [address, block] : blocks_) {
    if (dry_) continue;
    if (guarded_)
      munmap(reinterpret_cast<void*>(address), block->mapped);
    else
      release_host_bytes(reinterpret_cast<void*>(address));
  }
}

void* SimMemory::allocate(int device, std::uint64_t bytes) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  block->device = device;
  void* pointer = nullptr;
  if (dry_) {
    pointer = reinterpret_cast<void*>(next_dry_);
    next_dry_ += (bytes + 4095) / 4096 * 4096;
  } else if (guarded_) {
    block->mapped = pages(bytes);
    pointer = mmap(nullptr, block->mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pointer == MAP_FAILED) return nullptr;
    GuardRegistry::get().lock();
  } else {
    pointer = allocate_host_bytes(bytes);
    if (!pointer) return nullptr;
  }
  blocks_.emplace(reinterpret_cast<std::uintptr_t>(pointer), std::move(block));
  if (guarded_) GuardRegistry::get().unlock();
  return pointer;
}

void SimMemory::release(void* pointer) noexcept {
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == blocks_.end()) return;
  by_resource_.erase(found->second->allocation.resource);
  const std::uint64_t mapped = found->second->mapped;
  if (guarded_) GuardRegistry::get().lock();
  blocks_.erase(found);
  if (guarded_) GuardRegistry::get().unlock();
  if (dry_) return;
  if (guarded_)
    munmap(pointer, mapped);
  else
    release_host_bytes(pointer);
}

void SimMemory::protect(void* pointer, Block& block, Protection protection) noexcept {
  if (block.now.load(std::memory_order_relaxed) == protection) return;
  const int flags = protection == Protection::open   ? PROT_READ | PROT_WRITE
                    : protection == Protection::read ? PROT_READ
                                                     : PROT_NONE;
  if (mprotect(pointer, block.mapped, flags) == 0) block.now.store(protection, std::memory_order_relaxed);
}

#else

SimMemory::SimMemory(bool, bool dry) : guarded_(false), dry_(dry) {}
SimMemory::~SimMemory() {
  if (dry_) return;
  for (auto& [address, block] : blocks_) release_host_bytes(reinterpret_cast<void*>(address));
}
void* SimMemory::allocate(int device, std::uint64_t bytes) {
  void* pointer = dry_ ? reinterpret_cast<void*>(next_dry_) : allocate_host_bytes(bytes);
  if (!pointer) return nullptr;
  if (dry_) next_dry_ += (bytes + 4095) / 4096 * 4096;
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  block->device = device;
  blocks_.emplace(reinterpret_cast<std::uintptr_t>(pointer), std::move(block));
  return pointer;
}
void SimMemory::release(void* pointer) noexcept {
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == blocks_.end()) return;
  by_resource_.erase(found->second->allocation.resource);
  blocks_.erase(found);
  if (!dry_) release_host_bytes(pointer);
}
void SimMemory::protect(void*, Block&, Protection) noexcept {}

#endif

void SimMemory::name(const Allocation& allocation) {
  const auto address = reinterpret_cast<std::uintptr_t>(allocation.pointer);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;
  found->second->allocation = allocation;
  by_resource_[allocation.resource] = address;
}

SimMemory::Blocks::const_iterator SimMemory::find(const void* address) const {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  auto next = blocks_.upper_bound(wanted);
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return wanted < next->first + std::max<std::uint64_t>(next->second->bytes, 1) ? next : blocks_.end();
}

int SimMemory::device_of(const void* address) const {
  const auto found = find(address);
  return found == blocks_.end() ? CopyEnd::host : found->second->device;
}

int SimMemory::device_of(ResourceId resource) const {
  const auto found = by_resource_.find(resource);
  return found == by_resource_.end() ? CopyEnd::host : blocks_.at(found->second)->device;
}

ResourceId SimMemory::resource_of(const void* address) const {
  const auto found = find(address);
  return found == blocks_.end() ? 0 : found->second->allocation.resource;
}

bool SimMemory::on_fault(std::uintptr_t address, bool writes) noexcept {
  const auto found = find(reinterpret_cast<const void*>(address));
  // A fault between the last byte and the end of the last page is of the block, too.
  auto block = found;
  if (block == blocks_.end()) {
    auto next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) return false;
    block = std::prev(next);
    if (address >= block->first + block->second->mapped) return false;
  }
  Block& hit = *block->second;
  const Protection before = hit.now.load(std::memory_order_relaxed);
  if (before == Protection::open) return running_;  // another thread was first
  Block* nobody = nullptr;
  if (touched_.compare_exchange_strong(nobody, &hit)) {
    touched_byte_ = address - block->first;
    touched_write_ = writes;
    touched_was_read_ = before == Protection::read;
  }
  protect(reinterpret_cast<void*>(block->first), hit, Protection::open);
  return hit.now.load(std::memory_order_relaxed) == Protection::open;
}

void SimMemory::begin(const Operation& operation) {
  if (!guarded_) return;
  for (auto& [address, block] : blocks_) {
    const bool lasting = block->allocation.use == MemoryUse::scene;
    // What nobody has named yet belongs to an allocation under way.
    block->wanted = block->allocation.resource == 0 ? Protection::open
                    : lasting                       ? Protection::read
                                                    : Protection::closed;
  }
  for (const Access& access : operation.accesses) {
    if (access.is_empty()) continue;
    const auto found = by_resource_.find(access.resource);
    if (found == by_resource_.end()) continue;
    Block& block = *blocks_.at(found->second);
    const Protection needed = access.mode == AccessMode::read ? Protection::read : Protection::open;
    block.wanted = std::min(block.wanted, needed);
  }
  if (operation.kind == OperationKind::copy && operation.accesses.size() == 0)
    for (const auto& [end, needed] : {std::pair{operation.from.address, Protection::read},
                                      std::pair{operation.to.address, Protection::open}})
      if (const auto found = find(end); found != blocks_.end())
        found->second->wanted = std::min(found->second->wanted, needed);
  for (auto& [address, block] : blocks_) protect(reinterpret_cast<void*>(address), *block, block->wanted);
  touched_ = nullptr;
  running_ = true;
}

std::string SimMemory::end(const Operation& operation, const std::string& where) {
  running_ = false;
  const Block* block = touched_.exchange(nullptr);
  if (!block) return {};
  const Allocation& allocation = block->allocation;
  const bool was_read = touched_was_read_;
  return fmt::format(
      "sim guard: '{}' on {} {} byte {} of '{}' (resource {}, {} bytes), which it {}; declare {} "
      "in the operation's accesses",
      operation.name, where, was_read || touched_write_ ? "writes" : "touches", touched_byte_.load(),
      allocation.name, allocation.resource, allocation.bytes,
      was_read && allocation.use == MemoryUse::scene ? "may only read"
      : was_read                                     ? "declares as read"
                                                     : "does not declare",
      was_read || touched_write_ ? "the write" : "the access");
}

void SimMemory::open_all() noexcept {
  if (!guarded_) return;
  for (auto& [address, block] : blocks_) protect(reinterpret_cast<void*>(address), *block, Protection::open);
}

}  // namespace shardwise
