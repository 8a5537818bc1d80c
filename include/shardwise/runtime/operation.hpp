#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shardwise/runtime/access.hpp"

namespace shardwise {

class Device;

enum class OperationKind { launch, copy, host, release };

/// A piece of a parallel loop: items [begin, end).
using RangeFunction = std::function<void(std::int64_t begin, std::int64_t end)>;

/// What an operation's body gets. On host and sim the body does its work before it returns; on CUDA it
/// enqueues work on native_stream() and returns.
class LaunchContext {
 public:
  virtual ~LaunchContext() = default;
  virtual Device& device() = 0;
  /// cudaStream_t on CUDA, null elsewhere.
  virtual void* native_stream() { return nullptr; }
  /// Runs `function` over [0, count) in pieces of about `grain` items on the device's threads. Host and sim
  /// only.
  virtual void parallel_for(std::int64_t count, std::int64_t grain, const RangeFunction& function) = 0;
  /// Runs `function` on the device's threads, so that libraries with tasks of their own use these. Host and
  /// sim only.
  virtual void execute(const std::function<void()>& function) = 0;
};

/// One end of a copy. Sim derives from it which links the copy takes and whose loss ends it.
struct CopyEnd {
  static constexpr int by_address = -2, host = -1;
  const void* address = nullptr;
  int device = by_address;  ///< its DeviceInfo::index, where the maker knows; `host` for host memory
};

/// One unit of work for a stream: what it is called, what it touches, and how to do it.
struct Operation {
  std::string name;
  OperationKind kind = OperationKind::launch;
  AccessList accesses;
  std::uint64_t bytes = 0;  ///< moved by a copy; written by a launch, where known
  std::int64_t items = 0;   ///< rows or lanes that a launch works on; 0: not known
  CopyEnd from, to;         ///< of a copy; those of its first piece
  double predicted_s = 0;   ///< what a planner expects, 0: nothing. No time, sim's neither, follows from it
  std::function<void(LaunchContext&)> body;
};

}  // namespace shardwise
