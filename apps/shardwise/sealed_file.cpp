#include "sealed_file.hpp"

#include <fmt/core.h>

#include <cstring>

#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

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

}  // namespace

std::string seal(const SealedKind& kind, const Json& header,
                 std::initializer_list<std::string_view> payload) {
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::uint64_t size = prefix_bytes + text.size() + digest_bytes;
  for (const std::string_view piece : payload) size += piece.size();
  std::string bytes(kind.magic);
  bytes.reserve(size);
  put(bytes, kind.schema);
  put(bytes, std::uint32_t{0});
  put(bytes, size);
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
  for (const std::string_view piece : payload) bytes += piece;
  const Blake3::Digest digest = Blake3().update(std::string_view(bytes)).digest();
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return bytes;
}

Unsealed unseal(const SealedKind& kind, std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with(kind.magic)) throw_data(fmt::format("'{}' is {}", path, kind.stranger));
  if (bytes.size() < prefix_bytes)
    throw_data(fmt::format("'{}' is cut short: {} bytes, its first {} say how many it has", path,
                           bytes.size(), prefix_bytes));
  const auto found = get<std::uint32_t>(bytes, 8);
  if (found != kind.schema)
    throw_data(fmt::format("'{}' has schema {}, this version reads {}; use the version that wrote it", path,
                           found, kind.schema));
  const auto size = get<std::uint64_t>(bytes, 16), header_bytes = get<std::uint64_t>(bytes, 24);
  if (bytes.size() < size)
    throw_data(
        fmt::format("'{}' is cut short: {} bytes of {}; {}", path, bytes.size(), size, kind.cut_remedy));
  if (bytes.size() > size)
    throw_damaged(kind, path, fmt::format("{} bytes, and it says {}", bytes.size(), size));
  if (size < prefix_bytes + digest_bytes || header_bytes > size - prefix_bytes - digest_bytes)
    throw_damaged(kind, path, fmt::format("a header of {} bytes in a file of {}", header_bytes, size));
  const std::string_view body = bytes.substr(0, size - digest_bytes);
  const Blake3::Digest digest = Blake3().update(body).digest();
  if (std::memcmp(digest.data(), bytes.data() + body.size(), digest_bytes) != 0)
    throw_damaged(kind, path, "its checksum is not that of its bytes");
  return {body.substr(prefix_bytes, header_bytes), body.substr(prefix_bytes + header_bytes)};
}

void throw_damaged(const SealedKind& kind, const std::string& path, const std::string& what) {
  throw_data(fmt::format("'{}' is damaged: {}; {}", path, what, kind.broken_remedy));
}

std::string read_sealed(const std::string& path) {
  return read_whole_file(path, "the file");
}

}  // namespace shardwise::program
