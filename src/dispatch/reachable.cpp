#include "dispatch/reachable.hpp"

#include <fmt/format.h>

#include "shardwise/runtime/error.hpp"

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_copy.hpp"
#endif

namespace shardwise {

namespace {

constexpr int host_memory = -1;

/// The GPU that owns a pointer, or host_memory.
int gpu_of(const void* pointer) {
#if SHARDWISE_WITH_CUDA
  return gpu_of_memory(pointer);
#else
  (void)pointer;
  return host_memory;
#endif
}

std::string place(int gpu) {
  return gpu == host_memory ? "host memory" : fmt::format("the memory of cuda:{}", gpu);
}

#if SHARDWISE_WITH_CUDA
/// Memory of a pool that is not ours may be closed to other GPUs.
bool is_open_to_peers(const void* pointer) {
  return pointer == nullptr || is_open_gpu_memory(pointer);
}

bool callers_memory_is_open(const RowSource& source, const RowSink& sink) {
  if (source.kind == SourceKind::on_master)
    for (const RowInput& column : source.columns)
      if (!is_open_to_peers(column.data)) return false;
  if (sink.kind == SinkKind::to_master)
    for (const auto& memory : sink.memory)
      if (!is_open_to_peers(memory.data())) return false;
  return true;
}
#endif

}  // namespace

bool all_reachable(const DeviceSet& devices, [[maybe_unused]] const RowSource& source,
                   [[maybe_unused]] const RowSink& sink) {
  const PlatformKind kind = devices.master().kind();
  for (int d = 1; d < devices.size(); ++d) {
    if (devices[d].kind() != kind) return false;
    if (!devices.can_peer(0, d) || !devices.can_peer(d, 0)) return false;
  }
#if SHARDWISE_WITH_CUDA
  if (kind == PlatformKind::cuda && devices.size() > 1) return callers_memory_is_open(source, sink);
#endif
  return true;
}

void require_on_master(const DeviceSet& devices, const void* pointer, const std::string& operation,
                       const std::string& what) {
  if (pointer == nullptr) return;
  const DeviceInfo& master = devices.master().info();
  const int wanted = master.kind == PlatformKind::cuda ? master.index : host_memory;
  const int found = gpu_of(pointer);
  if (found != wanted)
    throw_usage(
        fmt::format("{}: {} is in {}, but the scene's first device is {}; copy it there, or pass it as {}",
                    operation, what, place(found), master.name,
                    found == host_memory ? "on_host" : "rows of a scene on that device"));
}

void require_on_host(const void* pointer, const std::string& operation, const std::string& what) {
  if (pointer == nullptr) return;
  const int found = gpu_of(pointer);
  if (found != host_memory)
    throw_usage(fmt::format("{}: {} is in {}, but was passed as host memory; pass it as on_master", operation,
                            what, place(found)));
}

}  // namespace shardwise
