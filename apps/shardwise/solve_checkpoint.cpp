#include "solve_checkpoint.hpp"

#include <fmt/core.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

constexpr char magic[8] = {'S', 'W', 'S', 'T', 'A', 'T', 'E', '\0'};
constexpr std::uint32_t schema = 1;
constexpr std::size_t prefix_bytes = 32, digest_bytes = 32;

template <class T>
void put(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T get(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw_data(fmt::format("'{}' is damaged: {}; begin again, or use an earlier state", path, what));
}

}  // namespace

std::string state_bytes(const SolveState& state) {
  const Json header = {{"schema", schema},
                       {"parameters", state.parameters},
                       {"step", state.step},
                       {"time", state.time},
                       {"cells", state.u.size()}};
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::size_t values = state.u.size() * sizeof(double);
  std::string bytes(magic, sizeof magic);
  bytes.reserve(prefix_bytes + text.size() + values + digest_bytes);
  put(bytes, schema);
  put(bytes, std::uint32_t{0});
  put(bytes, std::uint64_t{prefix_bytes + text.size() + values + digest_bytes});
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(state.u.data()), values);
  const Blake3::Digest digest = Blake3().update(std::string_view(bytes)).digest();
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return bytes;
}

SolveState parse_state(std::string_view bytes, const std::string& path) {
  if (bytes.size() < sizeof magic || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    throw_data(fmt::format("'{}' is no state of a solve; give a file of --checkpoint", path));
  if (bytes.size() < prefix_bytes)
    throw_data(fmt::format("'{}' is cut short: {} bytes, its first {} say how many it has", path,
                           bytes.size(), prefix_bytes));
  const auto found = get<std::uint32_t>(bytes, 8);
  if (found != schema)
    throw_data(fmt::format("'{}' has schema {}, this version reads {}; use the version that wrote it", path,
                           found, schema));
  const auto size = get<std::uint64_t>(bytes, 16), header_bytes = get<std::uint64_t>(bytes, 24);
  if (bytes.size() < size)
    throw_data(fmt::format("'{}' is cut short: {} bytes of {}; copy it again", path, bytes.size(), size));
  if (bytes.size() > size) damaged(path, fmt::format("{} bytes, and it says {}", bytes.size(), size));
  if (size < prefix_bytes + digest_bytes || header_bytes > size - prefix_bytes - digest_bytes)
    damaged(path, fmt::format("a header of {} bytes in a file of {}", header_bytes, size));
  const std::string_view body = bytes.substr(0, size - digest_bytes);
  const Blake3::Digest digest = Blake3().update(body).digest();
  if (std::memcmp(digest.data(), bytes.data() + body.size(), digest_bytes) != 0)
    damaged(path, "its checksum is not that of its bytes");
  SolveState state;
  std::uint64_t cells = 0;
  try {
    const Json header = Json::parse(body.substr(prefix_bytes, header_bytes));
    state.parameters = header.at("parameters");
    state.step = header.at("step").get<std::int64_t>();
    state.time = header.at("time").get<double>();
    cells = header.at("cells").get<std::uint64_t>();
  } catch (const Json::exception& error) {
    damaged(path, error.what());
  }
  const std::size_t begin = prefix_bytes + header_bytes;
  if (state.step < 0 || cells != (body.size() - begin) / sizeof(double))
    damaged(path, fmt::format("{} cells at step {} in {} bytes", cells, state.step, body.size() - begin));
  state.u.resize(cells);
  std::memcpy(state.u.data(), body.data() + begin, cells * sizeof(double));
  return state;
}

SolveState read_state(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_data(fmt::format("'{}' cannot be read; check the name", path));
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return parse_state(bytes, path);
}

}  // namespace shardwise::program
