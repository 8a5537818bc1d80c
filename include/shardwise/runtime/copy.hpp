#pragma once

#include <vector>

#include "shardwise/runtime/buffer.hpp"

namespace shardwise {

/// A copy of `bytes` from `source` to `target`; either may be device memory of any device or host memory. It
/// runs on the stream it is given to: a CUDA stream where CUDA memory takes part. `accesses` as declared by
/// the caller.
Operation copy_operation(std::string name, void* target, const void* source, std::uint64_t bytes,
                         AccessList accesses);

/// One range of a grouped copy.
struct CopyPiece {
  void* target = nullptr;
  const void* source = nullptr;
  std::uint64_t bytes = 0;
};

/// Several copies as one operation.
Operation copy_operation(std::string name, std::vector<CopyPiece> pieces, AccessList accesses);

/// Copies all of `source` into `target`, which has at least its size (else an internal Error).
template <class T>
Operation copy_operation(std::string name, const Buffer<T>& target, const Buffer<T>& source) {
  if (target.size() < source.size())
    throw Error(ErrorClass::internal, name + ": copy of " + std::to_string(source.size()) + " elements of " +
                                          source.memory().name() + " into " + std::to_string(target.size()) +
                                          " of " + target.memory().name());
  return copy_operation(std::move(name), target.data(), source.data(), source.bytes(),
                        {target.access(AccessMode::write, 0, source.size()), source.reads()});
}

/// Sets `bytes` at `target` to zero.
Operation zero_operation(std::string name, void* target, std::uint64_t bytes, AccessList accesses);

}  // namespace shardwise
