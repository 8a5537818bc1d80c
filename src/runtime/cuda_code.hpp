#pragma once
// Whether a build holds code that a GPU can run. It needs no CUDA, so it is tested where there is none.

#include <functional>
#include <string_view>

#include "shardwise/runtime/device.hpp"

namespace shardwise {

/// A GPU's compute capability: 9, 0 for sm_90.
struct CudaCapability {
  int major = 0, minor = 0;
  int number() const { return 10 * major + minor; }
};

enum class CudaCode { absent, present, unknown };

/// Whether code built for `architectures` runs on a GPU of that capability. The list is written as in
/// CMAKE_CUDA_ARCHITECTURES, joined with ',' or ';': "75-real" is code for the GPUs of major version 7 from
/// minor 5 on, "90-virtual" is PTX, which the driver compiles for every GPU from there on, "90" is both;
/// "90a" runs on that one alone, "100f" within its major version. Unknown for words like "native". Rules:
/// CUDA C++ Programming Guide, "Binary Compatibility", "PTX Compatibility".
CudaCode cuda_code_for(std::string_view architectures, CudaCapability gpu);

/// Throws a usage Error unless this build has code for `gpu`: it names the GPU, its sm, what was built and
/// the line that configures a build with it. `loads` asks the driver whether it can load a kernel here; it
/// has the last word where the list says yes or nothing.
void require_cuda_code(const DeviceInfo& gpu, CudaCapability capability, std::string_view architectures,
                       const std::function<bool()>& loads);

}  // namespace shardwise
