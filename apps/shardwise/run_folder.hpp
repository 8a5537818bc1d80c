#pragma once
// A folder of results that processes share, on one machine or several over a shared file system.
//
//   DIR/.shardwise/folder.json    what made the folder; another one is refused
//   DIR/.shardwise/lock           its owner: host, process, since when
//   DIR/.shardwise/claims/UNIT    who does this unit of work now
//
// A lock or claim is a file that is made whole under a name of its own and then renamed to where none may be.
// Its owner touches it every few seconds. One is taken over when its process on this machine is gone, and
// where that cannot be known (another machine, another container), when nobody has touched it for a minute.
// Takers hold a file lock meanwhile, so that one of them finds the old one.

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "process_identity.hpp"

namespace shardwise::program {

/// Who holds a lock or claim.
struct FolderOwner {
  ProcessIdentity process;
  std::string since;  ///< UTC, "2026-01-31 12:00:00"

  std::string text() const;  ///< "process 12 on host box since ..."
  friend bool operator==(const FolderOwner&, const FolderOwner&) = default;
};

/// Thread-safe.
class RunFolder {
 public:
  /// Makes the folder, or takes an existing one of the same command. Without `join` it must have no living
  /// owner. Throws a usage error: a folder with something else in it, of another command, or owned (which
  /// names the owner).
  RunFolder(const std::string& path, const std::string& command, bool join);
  /// Gives up the lock and all claims, but for those that somebody took over.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// This process, as others see it.
  const FolderOwner& self() const { return self_; }

  /// True: the unit is this process' from now on (or was already). False: another one has it.
  bool claim(const std::string& unit);
  /// Ends a claim of ours; no effect on others'.
  void give_up(const std::string& unit);
  /// Who else has the unit at the moment.
  std::optional<FolderOwner> owner_of(const std::string& unit) const;

 private:
  bool take(const std::filesystem::path& file);
  bool make_if_absent(const std::filesystem::path& file);
  bool is_stale(const std::filesystem::path& file, const FolderOwner& owner) const;
  void remove_own(const std::filesystem::path& file) const noexcept;
  void beat();

  std::filesystem::path path_, inner_;
  FolderOwner self_;
  mutable std::atomic<bool> told_of_stopped_{false};
  std::filesystem::path lock_;  ///< empty: joined without it
  mutable std::mutex mutex_;
  std::set<std::string> mine_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread heart_;
};

/// Writes a file under a name of its own, then renames it: others see all of it or none. Throws Error{io}.
void write_by_rename(const std::filesystem::path& path, std::string_view bytes);
/// Removes what killed processes left half-written in a folder, an hour ago or longer: nobody is at that.
void remove_left_parts(const std::filesystem::path& folder);
/// The bytes of a file; empty where there is none that can be read. Throws Error{data} for what is no regular
/// file: a pipe would be waited for.
std::optional<std::string> read_if_there(const std::filesystem::path& path);
/// Refuses what cannot be a folder's name: `what` begins the message.
void check_unit_name(const std::string& name, const std::string& what);

}  // namespace shardwise::program
