#pragma once
// Whole files in, whole files out.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace shardwise {

/// The bytes of a file. Throws a data error that names `what` (as in "PLY file") and the path where it is
/// missing, a folder or unreadable.
std::string read_whole_file(const std::filesystem::path& path, const char* what);

/// Every file that read_whole_file() reads while this lives, in any thread: its path and the BLAKE3 of its
/// bytes, hex. One at a time in a process (another is an internal error).
class FileReadLog {
 public:
  FileReadLog();
  ~FileReadLog();
  FileReadLog(const FileReadLog&) = delete;
  FileReadLog& operator=(const FileReadLog&) = delete;
  std::map<std::string, std::string> digests() const;
};

/// Writes a file under a temporary name beside it and renames it, so that the name never holds a part of it.
/// Throws a usage error where the folder is not there or cannot be written, an io error where writing fails
/// later.
void write_whole_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace shardwise
