#include "jobs/worker_wire.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x53574a31;  // "SWJ1"
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
constexpr int kLookMilliseconds = 10;

struct Head {
  std::uint32_t magic, type;
  std::uint64_t size;
};
static_assert(sizeof(Head) == 16);

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorClass::internal, "jobs in worker processes: " + what);
}

bool is_known(std::uint32_t type) {
  return type >= static_cast<std::uint32_t>(WireType::hello) &&
         type <= static_cast<std::uint32_t>(WireType::result);
}

}  // namespace

const char* to_string(WireType type) noexcept {
  switch (type) {
    case WireType::hello:
      return "hello";
    case WireType::open:
      return "open";
    case WireType::opened:
      return "opened";
    case WireType::program:
      return "program";
    case WireType::forget:
      return "forget";
    case WireType::job:
      return "job";
    case WireType::begun:
      return "begun";
    case WireType::result:
      return "result";
  }
  return "?";
}

WireWriter& WireWriter::number(std::uint64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

WireWriter& WireWriter::text(std::string_view value) {
  number(value.size());
  bytes_.append(value);
  return *this;
}

std::string_view WireReader::take(std::uint64_t bytes) {
  if (bytes > bytes_.size())
    fail(fmt::format("a message '{}' ends {} bytes early", to_string(type_), bytes - bytes_.size()));
  const std::string_view taken = bytes_.substr(0, bytes);
  bytes_.remove_prefix(bytes);
  return taken;
}

std::uint64_t WireReader::number() {
  std::uint64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string WireReader::text() {
  return std::string(take(number()));
}

std::size_t WireReader::count() {
  const std::uint64_t entries = number();
  if (entries > bytes_.size() / 8)
    fail(fmt::format("a message '{}' announces {} entries, more than it has room for", to_string(type_),
                     entries));
  return entries;
}

void WireReader::end() const {
  if (!bytes_.empty())
    fail(fmt::format("a message '{}' has {} bytes too many", to_string(type_), bytes_.size()));
}

WireChannel::~WireChannel() {
  if (socket_ >= 0) close(socket_);
}

void WireChannel::put(WireType type, const WireWriter& payload) {
  const std::string& bytes = payload.bytes();
  if (bytes.size() > kMostBytes)
    fail(fmt::format("a message '{}' of {} bytes is above {}; make the program's text shorter",
                     to_string(type), bytes.size(), kMostBytes));
  const Head head{kMagic, static_cast<std::uint32_t>(type), bytes.size()};
  out_.append(reinterpret_cast<const char*>(&head), sizeof head).append(bytes);
}

// Until the socket may be ready, or somebody wants to look. False where the watched handle says that the
// other end is gone.
bool WireChannel::wait(short events, const Idle& idle) {
  pollfd waited[2] = {{socket_, events, 0}, {watched_, POLLIN, 0}};
  const int ready = poll(waited, watched_ >= 0 ? 2 : 1, idle ? kLookMilliseconds : -1);
  if (ready < 0 && errno != EINTR) fail(fmt::format("poll failed ({})", std::strerror(errno)));
  if (idle) idle();
  return ready <= 0 || waited[0].revents != 0 || waited[1].revents == 0;
}

bool WireChannel::send(const Idle& idle) {
  std::size_t sent = 0;
  while (sent < out_.size()) {
    const ssize_t count =
        ::send(socket_, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    const bool full = errno == EAGAIN || errno == EWOULDBLOCK;
    if (!full || !wait(POLLOUT, idle)) {
      out_.clear();
      return false;
    }
  }
  out_.clear();
  return true;
}

bool WireChannel::read(char* to, std::size_t bytes, bool begun, const Idle& idle) {
  std::size_t got = 0;
  bool other_is_there = true;
  const auto start = Clock::now();
  while (got < bytes) {
    const ssize_t count = recv(socket_, to + got, bytes - got, MSG_DONTWAIT);
    if (count > 0) {
      got += static_cast<std::size_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    const bool empty = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (!empty || !other_is_there) {
      if (got > 0 || begun) fail("a message broke off");
      return false;
    }
    if (spin_s_ > 0 && std::chrono::duration<double>(Clock::now() - start).count() < spin_s_) continue;
    // Once more after it went: its last words may have come in between.
    other_is_there = wait(POLLIN, idle);
  }
  return true;
}

std::optional<WireMessage> WireChannel::receive(const Idle& idle) {
  Head head;
  if (!read(reinterpret_cast<char*>(&head), sizeof head, false, idle)) return std::nullopt;
  if (head.magic != kMagic || !is_known(head.type) || head.size > kMostBytes)
    fail(fmt::format("what came is no message of ours (magic {:#x}, type {}, {} bytes)", head.magic,
                     head.type, head.size));
  WireMessage message;
  message.type = static_cast<WireType>(head.type);
  message.payload.resize(head.size);
  if (head.size > 0) read(message.payload.data(), head.size, true, idle);
  return message;
}

}  // namespace shardwise
