#pragma once
// What sweeps keep: one file for each run, named by the key of everything that decides its map. Processes
// share it.
//
//   shardwise-run 1 \n  digest of what follows, hex \n  length of the header \n  header (JSON)  files' bytes

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report_file.hpp"

namespace shardwise::program {

struct SweepEntry {
  Json facts;                                              ///< numbers for tables
  std::vector<std::pair<std::string, std::string>> files;  ///< name, bytes: the run's folder

  const std::string* file(const std::string& name) const;
};

class SweepCache {
 public:
  explicit SweepCache(std::filesystem::path folder);

  enum class State { absent, damaged, good };
  struct Found {
    State state = State::absent;
    SweepEntry entry;
  };
  /// What is no regular file is damaged; a folder throws Error{data}.
  Found find(const std::string& key) const;
  /// Whether there is something under the key, good or not; makes no folder.
  static bool has(const std::filesystem::path& folder, const std::string& key);
  /// Replaces by rename.
  void keep(const std::string& key, const SweepEntry& entry) const;

 private:
  std::filesystem::path folder_;
};

/// BLAKE3 over the digests of the files a scene was read from, canonical parameters, backend and
/// physics_version.
std::string sweep_key(const std::vector<std::string>& file_digests, const Json& parameters,
                      const std::string& backend);

}  // namespace shardwise::program
