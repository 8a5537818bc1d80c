#include "shardwise/runtime/copy.hpp"

#include <cstring>

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_copy.hpp"
#endif

namespace shardwise {

namespace {

void copy_now([[maybe_unused]] LaunchContext& context, const CopyPiece& piece) {
  if (piece.bytes == 0) return;
#if SHARDWISE_WITH_CUDA
  if (context.native_stream()) return cuda_copy(context, piece.target, piece.source, piece.bytes);
  if (is_gpu_memory(piece.target) || is_gpu_memory(piece.source))
    return cuda_copy_and_wait(piece.target, piece.source, piece.bytes);
#endif
  std::memcpy(piece.target, piece.source, piece.bytes);
}

}  // namespace

Operation copy_operation(std::string name, void* target, const void* source, std::uint64_t bytes,
                         AccessList accesses) {
  Operation operation;
  operation.name = std::move(name);
  operation.kind = OperationKind::copy;
  operation.accesses = accesses;
  operation.bytes = bytes;
  operation.from.address = source;
  operation.to.address = target;
  operation.body = [piece = CopyPiece{target, source, bytes}](LaunchContext& context) {
    copy_now(context, piece);
  };
  return operation;
}

Operation copy_operation(std::string name, std::vector<CopyPiece> pieces, AccessList accesses) {
  Operation operation;
  operation.name = std::move(name);
  operation.kind = OperationKind::copy;
  operation.accesses = accesses;
  for (const CopyPiece& piece : pieces) operation.bytes += piece.bytes;
  if (!pieces.empty()) {
    operation.from.address = pieces.front().source;
    operation.to.address = pieces.front().target;
  }
  operation.body = [pieces = std::move(pieces)](LaunchContext& context) {
    for (const CopyPiece& piece : pieces) copy_now(context, piece);
  };
  return operation;
}

Operation zero_operation(std::string name, void* target, std::uint64_t bytes, AccessList accesses) {
  Operation operation;
  operation.name = std::move(name);
  operation.accesses = accesses;
  operation.bytes = bytes;
  operation.body = [target, bytes]([[maybe_unused]] LaunchContext& context) {
    if (bytes == 0) return;
#if SHARDWISE_WITH_CUDA
    if (context.native_stream()) return cuda_zero(context, target, bytes);
#endif
    std::memset(target, 0, bytes);
  };
  return operation;
}

}  // namespace shardwise
