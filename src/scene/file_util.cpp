#include "file_util.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise {
namespace {

/// Closes on every path.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

std::mutex log_mutex;
bool log_is_open = false;
std::map<std::string, std::string> log_digests;

void note_read(const std::filesystem::path& path, const std::string& bytes) {
  {
    std::lock_guard lock(log_mutex);
    if (!log_is_open) return;
  }
  std::string digest = blake3_hex(bytes.data(), bytes.size());
  std::lock_guard lock(log_mutex);
  log_digests[path.string()] = std::move(digest);
}

}  // namespace

FileReadLog::FileReadLog() {
  std::lock_guard lock(log_mutex);
  if (log_is_open) throw Error(ErrorClass::internal, "FileReadLog: another one is open");
  log_is_open = true;
  log_digests.clear();
}

FileReadLog::~FileReadLog() {
  std::lock_guard lock(log_mutex);
  log_is_open = false;
}

std::map<std::string, std::string> FileReadLog::digests() const {
  std::lock_guard lock(log_mutex);
  return log_digests;
}

std::string read_whole_file(const std::filesystem::path& path, const char* what) {
  // A pipe without a writer would be waited for for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0) {
    throw_data(fmt::format("{} '{}' cannot be read: {}", what, path.string(), std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) throw_data(fmt::format("{} '{}' is not a regular file", what, path.string()));
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw_data(fmt::format("{} '{}' cannot be read: {}", what, path.string(), std::strerror(errno)));
    if (got == 0) break;  // it became shorter while we read; its reader will say what is missing
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  note_read(path, bytes);
  return bytes;
}

void write_whole_file(const std::filesystem::path& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.part-{}", path.string(), ::getpid());
  Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (file.fd < 0) {
    throw_usage(fmt::format("output '{}' cannot be written: {}; its folder must exist and be writable",
                            path.string(), std::strerror(errno)));
  }
  const auto fail = [&](const char* step) {
    const int code = errno;
    ::unlink(temporary.c_str());
    throw Error(ErrorClass::io, fmt::format("output '{}' cannot be written: {} failed: {}", path.string(),
                                            step, std::strerror(code)));
  };
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = ::write(file.fd, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write");
    done += static_cast<std::size_t>(put);
  }
  const int fd = file.fd;
  file.fd = -1;
  if (::close(fd) != 0) fail("close");
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail("rename");
}

}  // namespace shardwise
