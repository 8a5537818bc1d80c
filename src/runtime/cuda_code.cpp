#include "runtime/cuda_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

namespace {

/// CUDA 13 compiles for nothing older.
constexpr int oldest = 75;

/// "90a-real": number 90, suffix 'a', real.
struct Architecture {
  int number = 0;
  char suffix = 0;
  bool real = true, ptx = true;
};

bool parse(std::string_view text, Architecture& result) {
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const std::string_view kind = text.substr(dash);
    if (kind != "-real" && kind != "-virtual") return false;
    result.ptx = kind == "-virtual";
    result.real = !result.ptx;
    text = text.substr(0, dash);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.number);
  if (error != std::errc()) return false;
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (rest.size() > 1 || (!rest.empty() && rest != "a" && rest != "f")) return false;
  if (!rest.empty()) result.suffix = rest.front();
  return true;
}

bool runs_on(const Architecture& built, CudaCapability gpu) {
  const bool same_major = built.number / 10 == gpu.major;
  if (built.suffix == 'a') return built.number == gpu.number();
  if (built.suffix == 'f') return same_major && built.number <= gpu.number();
  return (built.real && same_major && built.number <= gpu.number()) ||
         (built.ptx && built.number <= gpu.number());
}

}  // namespace

CudaCode cuda_code_for(std::string_view architectures, CudaCapability gpu) {
  CudaCode result = CudaCode::absent;
  while (!architectures.empty()) {
    const std::size_t end = std::min(architectures.find_first_of(",;"), architectures.size());
    Architecture built;
    if (!parse(architectures.substr(0, end), built)) {
      result = CudaCode::unknown;
    } else if (runs_on(built, gpu)) {
      return CudaCode::present;
    }
    architectures.remove_prefix(std::min(end + 1, architectures.size()));
  }
  return result;
}

void require_cuda_code(const DeviceInfo& gpu, CudaCapability capability, std::string_view architectures,
                       const std::function<bool()>& loads) {
  const CudaCode code = cuda_code_for(architectures, capability);
  if (code != CudaCode::absent && loads()) return;
  const std::string who = fmt::format("devices: {} ({}) is sm_{}", gpu.name, gpu.model, capability.number());
  if (capability.number() < oldest)
    throw_usage(fmt::format("{}; GPUs from sm_{} on are supported, use host:N or another GPU", who, oldest));
  const char* why = code == CudaCode::present ? "whose driver does not load the code of this build"
                                              : "for which this build has no code";
  throw_usage(
      fmt::format("{}, {} (built for {}); {}configure with: cmake --preset cuda "
                  "-DCMAKE_CUDA_ARCHITECTURES={}",
                  who, why, architectures, code == CudaCode::present ? "update the driver, or " : "",
                  capability.number()));
}

}  // namespace shardwise
