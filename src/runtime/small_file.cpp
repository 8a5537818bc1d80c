#include "runtime/small_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

struct Descriptor {
  int number = -1;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

std::string read_small_file(const std::string& path, const std::string& what, const std::string& remedy) {
  const auto fail = [&](const std::string& why) {
    throw_data(fmt::format("{}: '{}' cannot be read ({}); {}", what, path, why, remedy));
  };
  // Without O_NONBLOCK the opening itself would wait for a pipe's other end.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status = {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0) fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("it is no regular file");
  std::string bytes;
  while (true) {
    if (bytes.size() > most_bytes_of_small_file || status.st_size > std::int64_t{most_bytes_of_small_file})
      fail(fmt::format("it has over {} MiB", most_bytes_of_small_file >> 20));
    char piece[65536];
    const ssize_t got = ::read(file.number, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::strerror(errno));
    if (got == 0) return bytes;
    bytes.append(piece, static_cast<std::size_t>(got));
  }
}

void replace_small_file(const std::string& path, std::string_view bytes, const std::string& what) {
  const std::string temporary =
      fmt::format("{}.part-{}-{:08x}", path, static_cast<long>(::getpid()), std::random_device{}());
  const auto fail = [&](int reason) {
    ::unlink(temporary.c_str());
    throw Error(ErrorClass::io,
                fmt::format("{}: cannot write '{}' ({}); check the file, its folder and the space left", what,
                            path, std::strerror(reason)));
  };
  Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
  if (file.number < 0) fail(errno);
  while (!bytes.empty()) {
    const ssize_t put = ::write(file.number, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  // Some file systems tell only now that there is no space.
  if (::close(std::exchange(file.number, -1)) != 0) fail(errno);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail(errno);
}

}  // namespace shardwise
