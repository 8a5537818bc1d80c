#pragma once
// What an executor and a worker process say to each other, over a stream socket between the two:
//
//   executor                      worker
//      hello ─────────────────────▶ │ ◀── protocol, build, names of host twins
//      open a device ─────────────▶ │ ──▶ opened, or why not
//      program N (once), job k ───▶ │ ──▶ begun k, result k
//
// A message is a head of 16 bytes (magic, type, size) and its payload: numbers of 64 bits, and texts with
// their length before them. Bytes of inputs and outputs go through memory that both map (shared_memory.hpp).
// Whatever is short, long or out of turn is an error of class `internal`: nothing is guessed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise {

/// Grows with every change of a message. hello itself stays as it is, so that any two builds can tell.
inline constexpr std::uint64_t worker_protocol = 1;

enum class WireType : std::uint32_t { hello = 1, open, opened, program, forget, job, begun, result };
const char* to_string(WireType type) noexcept;

class WireWriter {
 public:
  WireWriter& number(std::uint64_t value);
  WireWriter& text(std::string_view value);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Throws Error{internal} where the payload ends early, and, from end(), where something is left.
class WireReader {
 public:
  WireReader(WireType type, std::string_view bytes) : type_(type), bytes_(bytes) {}
  std::uint64_t number();
  std::string text();
  /// The length of a list whose entries take 8 bytes at least.
  std::size_t count();
  void end() const;

 private:
  std::string_view take(std::uint64_t bytes);
  WireType type_;
  std::string_view bytes_;
};

struct WireMessage {
  WireType type = WireType::hello;
  std::string payload;
  WireReader reader() const { return WireReader(type, payload); }
};

/// One end of the socket, which it owns. For one thread.
class WireChannel {
 public:
  /// Asked every few milliseconds while the other end keeps us waiting; what it throws comes out.
  using Idle = std::function<void()>;

  explicit WireChannel(int socket) : socket_(socket) {}
  ~WireChannel();
  WireChannel(const WireChannel&) = delete;
  WireChannel& operator=(const WireChannel&) = delete;

  int socket() const { return socket_; }
  /// A handle that becomes readable when the other end is gone, for the case that its socket lives on in a
  /// child of its own. Not owned.
  void watch(int handle) { watched_ = handle; }
  /// How long to ask without sleeping, before sleeping: waking up takes longer than a short job.
  void spin(double seconds) { spin_s_ = seconds; }

  /// Puts a message behind those that go out with the next send().
  void put(WireType type, const WireWriter& payload);
  /// False where the other end is gone.
  bool send(const Idle& idle = {});
  /// The next message; none where the other end is gone. Throws Error{internal} for what is no message.
  std::optional<WireMessage> receive(const Idle& idle = {});

 private:
  bool wait(short events, const Idle& idle);
  bool read(char* to, std::size_t bytes, bool begun, const Idle& idle);

  int socket_, watched_ = -1;
  double spin_s_ = 0;
  std::string out_;
};

}  // namespace shardwise
