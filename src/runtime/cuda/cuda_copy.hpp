#pragma once

#include <cstdint>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

/// Enqueues a copy between any two memories on the context's stream and returns; pageable host memory, and
/// pairs of GPUs without peer access, go through pinned memory of ours.
void cuda_copy(LaunchContext& context, void* target, const void* source, std::uint64_t bytes);
/// The same on a host thread: returns when the copy is done.
void cuda_copy_and_wait(void* target, const void* source, std::uint64_t bytes);
/// Whether a pointer is GPU memory. False without asking where this process has opened no GPU.
bool is_gpu_memory(const void* pointer);
void note_gpu_opened() noexcept;
/// The GPU that a pointer's memory belongs to; -1 for host memory, and where this process has opened no GPU.
int gpu_of_memory(const void* pointer);
/// Whether a GPU pointer comes from cudaMalloc or from a device's default pool, which peers may use.
bool is_open_gpu_memory(const void* pointer);
void cuda_zero(LaunchContext& context, void* target, std::uint64_t bytes);

/// Whether this build's kernels run on the current GPU.
bool cuda_has_code();

}  // namespace shardwise
