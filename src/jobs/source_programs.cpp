#include "jobs/source_programs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "jobs/nvrtc.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise {
namespace {

namespace fs = std::filesystem;

// A kept file: this line, the digest of what follows, machine code.
constexpr std::string_view kMagic = "shardwise-cubin 1\n";
constexpr std::size_t kDigestLength = 64;

void add(Blake3& hasher, std::string_view text) {
  const std::uint64_t size = text.size();
  hasher.update(&size, sizeof size).update(text);
}

}  // namespace

SourcePrograms::SourcePrograms(std::string folder) : folder_(std::move(folder)) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error || access(folder_.c_str(), R_OK | W_OK | X_OK) != 0)
    throw_usage(fmt::format("the folder for compiled programs '{}' cannot be used ({}); choose another",
                            folder_, error ? error.message() : "no permission to write"));
}

std::string SourcePrograms::key(const CudaSource& source, const std::string& architecture,
                                const std::string& version) {
  Blake3 hasher;
  add(hasher, source.text);
  for (const std::string& option : source.options) add(hasher, option);
  add(hasher, architecture);
  add(hasher, version);
  return hasher.hex();
}

std::shared_ptr<const std::string> SourcePrograms::read_kept(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return nullptr;
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = std::move(text).str();
  const std::size_t head = kMagic.size() + kDigestLength;
  if (bytes.size() > head && bytes.compare(0, kMagic.size(), kMagic) == 0 &&
      bytes.substr(kMagic.size(), kDigestLength) == blake3_hex(bytes.data() + head, bytes.size() - head)) {
    std::lock_guard lock(mutex_);
    ++counts_.from_folder;
    return std::make_shared<const std::string>(bytes.substr(head));
  }
  std::lock_guard lock(mutex_);
  ++counts_.damaged;
  return nullptr;
}

// Under a name of its own first, so that others never see a part. A folder that is full costs the next
// process a compilation, nothing else.
void SourcePrograms::keep(const std::string& path, const std::string& code) const {
  const std::string temporary = fmt::format("{}.part-{}-{:x}", path, static_cast<long>(getpid()),
                                            reinterpret_cast<std::uintptr_t>(&code));
  {
    std::ofstream file(temporary, std::ios::binary);
    file << kMagic << blake3_hex(code.data(), code.size()) << code;
    file.flush();
    if (!file) {
      std::error_code ignored;
      fs::remove(temporary, ignored);
      return;
    }
  }
  std::error_code ignored;
  fs::rename(temporary, path, ignored);
  if (ignored) fs::remove(temporary, ignored);
}

std::shared_ptr<const std::string> SourcePrograms::code(const CudaSource& source,
                                                        const std::string& architecture) {
  const Nvrtc& nvrtc = Nvrtc::get();
  const std::string name = key(source, architecture, nvrtc.version());
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& place = entries_[name];
    if (!place) place = std::make_shared<Entry>();
    entry = place;
  }
  // One compiles; others who want the same text wait, others go on.
  std::lock_guard lock(entry->mutex);
  if (entry->error) std::rethrow_exception(entry->error);
  if (entry->code) return entry->code;
  const std::string path = folder_.empty() ? "" : (fs::path(folder_) / (name + ".cubin")).string();
  if (!path.empty()) entry->code = read_kept(path);
  if (entry->code) return entry->code;
  try {
    entry->code = std::make_shared<const std::string>(
        nvrtc.compile(source.name, source.text, source.options, architecture));
  } catch (...) {
    entry->error = std::current_exception();
    throw;
  }
  {
    std::lock_guard count_lock(mutex_);
    ++counts_.compiled;
  }
  if (!path.empty()) keep(path, *entry->code);
  return entry->code;
}

void* SourcePrograms::kernel(const std::shared_ptr<const std::string>& code, const std::string& key,
                             const CudaSource& source, const Device& device) {
  const std::pair<std::string, std::string> place(key + ":" + source.kernel, device.info().uuid);
  {
    std::lock_guard lock(mutex_);
    const auto found = kernels_.find(place);
    if (found != kernels_.end()) return found->second;
  }
  void* const loaded = CudaDriver::get().load_kernel(*code, source.kernel, source.name);
  std::lock_guard lock(mutex_);
  return kernels_[place] = loaded;
}

void SourcePrograms::launch(const CudaSource& source, JobContext& job) {
  const std::string& architecture = job.device().info().architecture;
  const std::shared_ptr<const std::string> machine_code = code(source, architecture);
  const std::string name = key(source, architecture, Nvrtc::get().version());
  const JobLaunch& launch = job.job().launch;
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < job.job().inputs.size(); ++i)
    pointers.push_back(const_cast<void*>(job.input_data(i)));
  for (const std::uint64_t bytes : launch.output_bytes) pointers.push_back(job.output_bytes(bytes));
  const auto threads = static_cast<std::int64_t>(launch.grid[0]) * launch.grid[1] * launch.grid[2] *
                       launch.block[0] * launch.block[1] * launch.block[2];
  // The job, hence what is captured by reference, lives until its device is done.
  job.launch(source.kernel, threads,
             [this, &source, &launch, machine_code, name, pointers](LaunchContext& context) mutable {
               CudaDriver::get().use_context_of(context.native_stream());
               void* const function = kernel(machine_code, name, source, context.device());
               std::vector<void*> arguments;
               for (void*& pointer : pointers) arguments.push_back(&pointer);
               for (const auto& scalar : launch.scalars)
                 arguments.push_back(const_cast<std::byte*>(scalar.data()));
               const unsigned grid[3] = {launch.grid[0], launch.grid[1], launch.grid[2]};
               const unsigned block[3] = {launch.block[0], launch.block[1], launch.block[2]};
               CudaDriver::get().launch(function, grid, block, launch.shared_bytes, context.native_stream(),
                                        arguments.data(),
                                        fmt::format("kernel '{}' of '{}'", source.kernel, source.name));
             });
}

SourcePrograms::Counts SourcePrograms::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace shardwise
