#pragma once
// CUDA source programs: compiled once for each architecture, loaded once for each device, kept in memory and
// in a folder that many processes may share.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "shardwise/jobs/job.hpp"

namespace shardwise {

/// Thread-safe.
class SourcePrograms {
 public:
  /// `folder`: where machine code is kept; empty: nowhere. Throws a usage Error where it cannot be made.
  explicit SourcePrograms(std::string folder);

  /// Machine code for an architecture ("sm_90"). A kept file that is damaged is compiled and written anew.
  /// Throws what Nvrtc::compile() throws, each time again for the same text.
  std::shared_ptr<const std::string> code(const CudaSource& source, const std::string& architecture);

  /// Enqueues the job's kernel: makes its outputs, then a launch over JobLaunch's grid.
  void launch(const CudaSource& source, JobContext& job);

  struct Counts {
    std::uint64_t compiled = 0, from_folder = 0, damaged = 0;
  };
  Counts counts() const;

  /// BLAKE3 of (text, options, architecture, compiler version), hex.
  static std::string key(const CudaSource& source, const std::string& architecture,
                         const std::string& version);

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const std::string> code;
    std::exception_ptr error;
  };
  std::shared_ptr<const std::string> read_kept(const std::string& path);
  void keep(const std::string& path, const std::string& code) const;
  void* kernel(const std::shared_ptr<const std::string>& code, const std::string& key,
               const CudaSource& source, const Device& device);

  std::string folder_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::map<std::pair<std::string, std::string>, void*> kernels_;  ///< (key and kernel, device UUID)
  Counts counts_;
};

}  // namespace shardwise
