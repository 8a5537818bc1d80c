#pragma once
// The allocations of one sim set: where each lies, which device holds it, and, where a guard is asked for,
// which of them the running operation may touch.
//
// The guard protects pages. While an operation runs, what it has not declared cannot be touched and what it
// declares as read cannot be written; an access that tries is noted, let through, and becomes the operation's
// error. Between operations, when the host runs, everything is open. Scene memory is open for reading always:
// a replica is one resource, its arrays are many allocations. Declared ranges count as their whole resource.
// A copy that declares nothing, as a hook makes it of memory whose resource it does not know, may touch its
// ends.
//
// One operation at a time, on any number of threads; all calls come from the world's thread.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "shardwise/runtime/device.hpp"
#include "shardwise/runtime/operation.hpp"

namespace shardwise {

class SimMemory {
 public:
  /// `dry`: addresses without memory behind them.
  SimMemory(bool guarded, bool dry);
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;
  SimMemory& operator=(const SimMemory&) = delete;

  /// Null where there is none left.
  void* allocate(int device, std::uint64_t bytes);
  void release(void* pointer) noexcept;
  /// What an allocation is for; it is not told when it is allocated.
  void name(const Allocation& allocation);

  /// The device that holds an address; CopyEnd::host for memory that is not ours.
  int device_of(const void* address) const;
  /// The device that holds a resource, or CopyEnd::host.
  int device_of(ResourceId resource) const;
  /// The resource that an address lies in; 0: none of ours.
  ResourceId resource_of(const void* address) const;

  bool is_guarded() const { return guarded_; }
  /// Before and after an operation's body. end() says what the body touched without having said so; empty:
  /// nothing.
  void begin(const Operation& operation);
  std::string end(const Operation& operation, const std::string& where);
  /// Opens everything for the host.
  void open_all() noexcept;

 private:
  friend struct GuardRegistry;
  enum class Protection : std::uint8_t { open, read, closed };
  struct Block {
    std::uint64_t bytes = 0, mapped = 0;
    int device = 0;
    Allocation allocation;
    Protection wanted = Protection::open;
    std::atomic<Protection> now{Protection::open};
  };
  struct Touch;
  using Blocks = std::map<std::uintptr_t, std::unique_ptr<Block>>;
  Blocks::const_iterator find(const void* address) const;
  static void protect(void* pointer, Block& block, Protection protection) noexcept;
  /// From the signal handler: whether the address is of a protected block of ours, which is open now.
  bool on_fault(std::uintptr_t address, bool writes) noexcept;

  bool guarded_, dry_;
  std::uintptr_t next_dry_ = std::uintptr_t{1} << 45;  ///< where no program has memory
  Blocks blocks_;
  std::map<ResourceId, std::uintptr_t> by_resource_;
  bool running_ = false;
  // The first touch that was not declared, noted by the signal handler of whichever thread made it.
  std::atomic<Block*> touched_{nullptr};
  std::atomic<std::uint64_t> touched_byte_{0};
  std::atomic<bool> touched_write_{false}, touched_was_read_{false};
};

}  // namespace shardwise
