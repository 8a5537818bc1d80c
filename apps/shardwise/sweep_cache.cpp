#include "sweep_cache.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "run_folder.hpp"
#include "shardwise/radio/physics_version.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

constexpr std::string_view kMagic = "shardwise-run 1\n";
constexpr std::size_t kDigest = 64;

std::optional<SweepEntry> parse(const std::string& bytes) {
  const std::size_t head = kMagic.size() + kDigest + 1;
  if (bytes.size() < head || bytes.compare(0, kMagic.size(), kMagic) != 0) return std::nullopt;
  const std::string_view body = std::string_view(bytes).substr(head);
  if (bytes.substr(kMagic.size(), kDigest) != blake3_hex(body.data(), body.size())) return std::nullopt;
  // From here on it is what we wrote, unless a later version did.
  std::size_t length = 0;
  const std::size_t line = body.find('\n');
  if (line == std::string_view::npos ||
      std::from_chars(body.data(), body.data() + line, length).ec != std::errc())
    return std::nullopt;
  try {
    const Json header = Json::parse(body.substr(line + 1, length));
    if (header.at("schema") != 1) return std::nullopt;
    SweepEntry entry;
    entry.facts = header.at("facts");
    std::size_t at = line + 1 + length;
    for (const Json& file : header.at("files")) {
      const auto size = file.at("bytes").get<std::size_t>();
      if (size > body.size() - at) return std::nullopt;
      entry.files.emplace_back(file.at("name").get<std::string>(), std::string(body.substr(at, size)));
      at += size;
    }
    return entry;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::filesystem::path path_of(const std::filesystem::path& folder, const std::string& key) {
  return folder / (key + ".run");
}

}  // namespace

const std::string* SweepEntry::file(const std::string& name) const {
  for (const auto& [file_name, bytes] : files)
    if (file_name == name) return &bytes;
  return nullptr;
}

SweepCache::SweepCache(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    throw_usage(
        fmt::format("the cache '{}' cannot be made ({}); choose another", folder_.string(), error.message()));
  remove_left_parts(folder_);
}

bool SweepCache::has(const std::filesystem::path& folder, const std::string& key) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path_of(folder, key), ignored);
}

SweepCache::Found SweepCache::find(const std::string& key) const {
  const std::filesystem::path path = path_of(folder_, key);
  std::error_code ignored;
  // A result would not take the place of a folder, and what is in it is not ours to remove.
  if (std::filesystem::is_directory(std::filesystem::symlink_status(path, ignored)))
    throw_data(
        fmt::format("'{}' is a folder where the cache keeps a result; remove or rename it", path.string()));
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) return {State::damaged, {}};
  const auto bytes = read_if_there(path);
  if (!bytes) return {};
  auto entry = parse(*bytes);
  if (!entry) return {State::damaged, {}};
  return {State::good, std::move(*entry)};
}

void SweepCache::keep(const std::string& key, const SweepEntry& entry) const {
  Json files = Json::array();
  for (const auto& [name, bytes] : entry.files) files.push_back({{"name", name}, {"bytes", bytes.size()}});
  const std::string header = Json{{"schema", 1}, {"facts", entry.facts}, {"files", files}}.dump();
  std::string body = fmt::format("{}\n{}", header.size(), header);
  for (const auto& [name, bytes] : entry.files) body += bytes;
  write_by_rename(path_of(folder_, key),
                  fmt::format("{}{}\n", kMagic, blake3_hex(body.data(), body.size())) + body);
}

std::string sweep_key(const std::vector<std::string>& file_digests, const Json& parameters,
                      const std::string& backend) {
  std::vector<std::string> sorted = file_digests;
  std::sort(sorted.begin(), sorted.end());
  const std::string text =
      Json{{"files", sorted}, {"parameters", parameters}, {"backend", backend}, {"physics", physics_version}}
          .dump();
  return blake3_hex(text.data(), text.size());
}

}  // namespace shardwise::program
