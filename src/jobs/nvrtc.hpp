#pragma once
// NVRTC and the CUDA driver, found when the first source program needs them: no build needs either.
// Declarations follow the interfaces that NVIDIA documents ("NVRTC", "CUDA Driver API").

#include <cstddef>
#include <string>
#include <vector>

namespace shardwise {

/// The runtime compiler. One for the process; thread-safe, as NVRTC is.
class Nvrtc {
 public:
  /// Throws a usage Error that says where it was looked for.
  static const Nvrtc& get();

  /// "13.0".
  const std::string& version() const { return version_; }
  /// Machine code of `text` for `architecture` ("sm_90"). Throws a data Error with the compiler's log, which
  /// names `name` and the line, where the text does not compile; a usage Error where the architecture is not
  /// known to this NVRTC.
  std::string compile(const std::string& name, const std::string& text,
                      const std::vector<std::string>& options, const std::string& architecture) const;

 private:
  Nvrtc();
  struct Api;
  const Api* api_;
  std::string version_;
};

/// What of the driver is used: modules and launches in the current context.
/// The runtime makes its context a thread's current one late: a thread that has made no call of it on its
/// first device has none. use_context_of() comes before everything else.
class CudaDriver {
 public:
  /// Throws a usage Error where there is no driver.
  static const CudaDriver& get();

  /// Makes the context of a stream this thread's current one.
  void use_context_of(void* stream) const;
  /// The kernel of this name in machine code, loaded into the current context for good. Throws a data Error
  /// for a name that is not there, with the way to spell it.
  void* load_kernel(const std::string& code, const std::string& kernel, const std::string& source_name) const;
  /// Throws an Error with the driver's words, of class lost, memory or device.
  void launch(void* kernel, const unsigned (&grid)[3], const unsigned (&block)[3], unsigned shared_bytes,
              void* stream, void** arguments, const std::string& what) const;

 private:
  CudaDriver();
  struct Api;
  [[noreturn]] void fail(int code, const std::string& what) const;
  const Api* api_;
};

}  // namespace shardwise
