#include "jobs/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

void* open_library(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    throw_usage(fmt::format(
        "CUDA source programs: the library has no {}; install a current CUDA toolkit and driver", name));
}

constexpr int kNvrtcCompilation = 6;    // NVRTC_ERROR_COMPILATION
constexpr int kNvrtcInvalidOption = 5;  // NVRTC_ERROR_INVALID_OPTION
constexpr int kCudaOutOfMemory = 2;     // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kCudaNotFound = 500;      // CUDA_ERROR_NOT_FOUND
constexpr int kCudaFatal[] = {214, 220, 700, 702, 714, 715, 716, 717, 718, 719, 999};

}  // namespace

struct Nvrtc::Api {
  using Program = void*;
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
};

Nvrtc::Nvrtc() {
  std::vector<std::string> names{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                 "/usr/local/cuda/lib64/libnvrtc.so"};
  const char* const chosen = std::getenv("SHARDWISE_NVRTC");
  if (chosen && *chosen) names = {chosen};
  void* const library = open_library(names);
  if (!library) {
    std::string tried;
    for (const std::string& name : names) tried += (tried.empty() ? "" : ", ") + name;
    throw_usage(fmt::format(
        "CUDA source programs need NVRTC, which was not found (tried {}); install the CUDA toolkit, "
        "or name the library in SHARDWISE_NVRTC",
        tried));
  }
  static Api api;
  find(library, "nvrtcVersion", api.version);
  find(library, "nvrtcGetErrorString", api.error_string);
  find(library, "nvrtcCreateProgram", api.create);
  find(library, "nvrtcDestroyProgram", api.destroy);
  find(library, "nvrtcCompileProgram", api.compile);
  find(library, "nvrtcGetProgramLogSize", api.log_size);
  find(library, "nvrtcGetProgramLog", api.log);
  find(library, "nvrtcGetCUBINSize", api.cubin_size);
  find(library, "nvrtcGetCUBIN", api.cubin);
  api_ = &api;
  int major = 0, minor = 0;
  api_->version(&major, &minor);
  version_ = fmt::format("{}.{}", major, minor);
}

const Nvrtc& Nvrtc::get() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

std::string Nvrtc::compile(const std::string& name, const std::string& text,
                           const std::vector<std::string>& options, const std::string& architecture) const {
  struct Program {
    const Api& api;
    Api::Program handle = nullptr;
    ~Program() {
      if (handle) api.destroy(&handle);
    }
  } program{*api_};
  const auto check = [&](int code, const char* call) {
    if (code != 0)
      throw Error(ErrorClass::device, fmt::format("CUDA source '{}': {} failed: {} (NVRTC {})", name, call,
                                                  api_->error_string(code), version_));
  };
  check(api_->create(&program.handle, text.c_str(), name.c_str(), 0, nullptr, nullptr), "nvrtcCreateProgram");
  const std::string gpu = "--gpu-architecture=" + architecture;
  std::vector<const char*> all{gpu.c_str()};
  for (const std::string& option : options) all.push_back(option.c_str());
  const int code = api_->compile(program.handle, static_cast<int>(all.size()), all.data());
  if (code != 0) {
    std::size_t size = 0;
    std::string log;
    if (api_->log_size(program.handle, &size) == 0 && size > 1) {
      log.resize(size);
      api_->log(program.handle, log.data());
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    if (code == kNvrtcCompilation)
      throw_data(fmt::format("CUDA source '{}' does not compile for {}:\n{}", name, architecture, log));
    if (code == kNvrtcInvalidOption)
      throw_usage(fmt::format("CUDA source '{}': NVRTC {} refuses an option for {}: {}", name, version_,
                              architecture, log));
    check(code, "nvrtcCompileProgram");
  }
  std::size_t size = 0;
  check(api_->cubin_size(program.handle, &size), "nvrtcGetCUBINSize");
  std::string code_bytes(size, '\0');
  check(api_->cubin(program.handle, code_bytes.data()), "nvrtcGetCUBIN");
  return code_bytes;
}

struct CudaDriver::Api {
  int (*error_string)(int, const char**) = nullptr;
  int (*stream_context)(void*, void**) = nullptr;
  int (*set_context)(void*) = nullptr;
  int (*module_load)(void**, const void*) = nullptr;
  int (*module_function)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**) = nullptr;
};

CudaDriver::CudaDriver() {
  void* const library = open_library({"libcuda.so.1"});
  if (!library)
    throw_usage("CUDA source programs need the NVIDIA driver (libcuda.so.1), which was not found");
  static Api api;
  find(library, "cuGetErrorString", api.error_string);
  find(library, "cuStreamGetCtx", api.stream_context);
  find(library, "cuCtxSetCurrent", api.set_context);
  find(library, "cuModuleLoadData", api.module_load);
  find(library, "cuModuleGetFunction", api.module_function);
  find(library, "cuLaunchKernel", api.launch);
  api_ = &api;
}

const CudaDriver& CudaDriver::get() {
  static const CudaDriver driver;
  return driver;
}

void CudaDriver::fail(int code, const std::string& what) const {
  const char* text = nullptr;
  api_->error_string(code, &text);
  ErrorClass error_class = ErrorClass::device;
  if (code == kCudaOutOfMemory) error_class = ErrorClass::memory;
  for (const int fatal : kCudaFatal)
    if (code == fatal) error_class = ErrorClass::lost;
  throw Error(error_class, fmt::format("{}: CUDA driver error {} ({})", what, code, text ? text : "unknown"));
}

void CudaDriver::use_context_of(void* stream) const {
  void* context = nullptr;
  if (const int error = api_->stream_context(stream, &context)) fail(error, "cuStreamGetCtx");
  if (const int error = api_->set_context(context)) fail(error, "cuCtxSetCurrent");
}

void* CudaDriver::load_kernel(const std::string& code, const std::string& kernel,
                              const std::string& source_name) const {
  void *module = nullptr, *function = nullptr;
  if (const int error = api_->module_load(&module, code.data()))
    fail(error, fmt::format("CUDA source '{}': cuModuleLoadData", source_name));
  const int error = api_->module_function(&function, module, kernel.c_str());
  if (error == kCudaNotFound)
    throw_data(
        fmt::format("CUDA source '{}' has no kernel '{}'; declare it extern \"C\" __global__ void {}(...)",
                    source_name, kernel, kernel));
  if (error) fail(error, fmt::format("CUDA source '{}': cuModuleGetFunction('{}')", source_name, kernel));
  return function;
}

void CudaDriver::launch(void* kernel, const unsigned (&grid)[3], const unsigned (&block)[3],
                        unsigned shared_bytes, void* stream, void** arguments,
                        const std::string& what) const {
  const int error = api_->launch(kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                 shared_bytes, stream, arguments, nullptr);
  if (error)
    fail(error, fmt::format("{}: launch of {} x {} x {} blocks of {} x {} x {} threads", what, grid[0],
                            grid[1], grid[2], block[0], block[1], block[2]));
}

}  // namespace shardwise
