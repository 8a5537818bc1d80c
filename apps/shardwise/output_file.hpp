#pragma once
// Files that are whole or absent. Everything that a command writes is staged beside its target under a
// temporary name; only when all of it is on disk are the names moved into place. An error or a signal before
// that leaves the targets as they were and no temporary behind.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::program {

/// Finds out before the run whether `path` can be written: the folder exists, is a folder, takes a new file,
/// and the path itself is not a folder. Throws a usage error that names `option`. Leaves nothing behind. "-"
/// is accepted.
void check_output(const std::string& path, const std::string& option);

/// What commit() does after a signal has asked the program to stop.
enum class WhenStopped { refuse, commit };

class OutputSet {
 public:
  OutputSet() = default;
  OutputSet(const OutputSet&) = delete;
  OutputSet& operator=(const OutputSet&) = delete;
  ~OutputSet();

  /// Writes `bytes` for `path`: to a temporary beside it, or straight to it where it is a device or a pipe
  /// (then nothing can be taken back). Throws Error{io} with the file's name and the system's reason.
  void stage(const std::string& path, std::string_view bytes);

  /// A temporary name beside `path`, for writers that open files by themselves (an image library). The file
  /// must exist at commit().
  std::string stage_name(const std::string& path);

  /// Moves every staged file to its name, in the order they were staged. Throws Error{io}, and
  /// Error{interrupted} after a signal, unless what is written is for going on later.
  void commit(WhenStopped when_stopped = WhenStopped::refuse);

 private:
  struct Staged {
    std::string temporary, path;
    int slot;  ///< of remember_temporary()
  };
  std::vector<Staged> staged_;
};

/// Writes text to standard output and flushes; throws Error{io} where that fails (a closed pipe, a full
/// disk).
void write_stdout(std::string_view text);

}  // namespace shardwise::program
