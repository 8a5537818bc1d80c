#include "partial_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>

#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

constexpr char magic[8] = {'S', 'W', 'P', 'A', 'R', 'T', '\0', '\0'};
constexpr std::uint32_t schema = 1;
constexpr std::size_t prefix_bytes = 32, digest_bytes = 32;
static_assert(sizeof(Segment) == 4 * sizeof(double) && sizeof(ExactCell) == 32);

template <class T>
void put(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
void put_all(std::string& bytes, const std::vector<T>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class T>
T get(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw_data(fmt::format("'{}' is damaged: {}; leave it out and compute its lanes again", path, what));
}

/// Takes arrays off the front of what follows the header.
class Arrays {
 public:
  Arrays(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  template <class T>
  std::vector<T> take(std::uint64_t count, const char* what) {
    if (count > bytes_.size() / sizeof(T))
      damaged(path_, fmt::format("{} {} do not fit into the {} bytes left", count, what, bytes_.size()));
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes_.data(), count * sizeof(T));
    bytes_.remove_prefix(count * sizeof(T));
    return values;
  }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& path_;
};

/// What the rest of the program relies on.
void check_sums(const CoverageSums& sums, const std::string& path) {
  if (sums.cell_count < 1 || sums.grids_per_pass < 1 || sums.first_grid < 0 ||
      sums.first_grid % sums.grids_per_pass != 0 || sums.grid_count() % sums.grids_per_pass != 0)
    damaged(path, fmt::format("{} grids of {} cells from grid {} on, {} a pass, are no whole passes",
                              sums.grid_count(), sums.cell_count, sums.first_grid, sums.grids_per_pass));
  std::int64_t from = -1;
  for (const Window& window : sums.windows) {
    if (window.begin <= from || window.count < 1)
      damaged(path, fmt::format("its windows of lanes are not in order ({})", windows_text(sums.windows)));
    from = window.end();
  }
  for (const ExactCell& cell : sums.cells)
    if ((cell.digit[0] >> 32) != 0 || (cell.digit[1] >> 32) != 0 || cell.count < 0)
      damaged(path, "a sum is not in its normal form");
}

}  // namespace

std::string partial_bytes(const PartialFile& partial) {
  const CoverageSums& sums = partial.sums;
  Json windows = Json::array();
  for (const Window& window : sums.windows) windows.push_back({window.begin, window.count});
  const Json header = {{"schema", schema},
                       {"parameters", partial.parameters},
                       {"context", partial.context},
                       {"sums",
                        {{"cell_count", sums.cell_count},
                         {"grids_per_pass", sums.grids_per_pass},
                         {"first_grid", sums.first_grid},
                         {"grid_count", sums.grid_count()},
                         {"scale", sums.scale},
                         {"windows", windows},
                         {"segments", sums.segments},
                         {"rejected", sums.rejected},
                         {"seconds", partial.seconds}}},
                       {"open_cells", partial.is_open.size()},
                       {"outlines", partial.outlines.size()}};
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string bytes(magic, sizeof magic);
  put(bytes, schema);
  put(bytes, std::uint32_t{0});
  put(bytes, std::uint64_t{prefix_bytes + text.size() + partial.is_open.size() +
                           partial.outlines.size() * sizeof(Segment) + sums.cells.size() * sizeof(ExactCell) +
                           digest_bytes});
  put(bytes, std::uint64_t{text.size()});
  bytes += text;
  put_all(bytes, partial.is_open);
  put_all(bytes, partial.outlines);
  put_all(bytes, sums.cells);
  const Blake3::Digest digest = Blake3().update(std::string_view(bytes)).digest();
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return bytes;
}

PartialFile parse_partial(std::string_view bytes, const std::string& path) {
  if (bytes.size() < sizeof magic || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    throw_data(
        fmt::format("'{}' is no part of a coverage run; give a file of --partial or --checkpoint", path));
  if (bytes.size() < prefix_bytes)
    throw_data(fmt::format("'{}' is cut short: {} bytes, its first {} say how many it has", path,
                           bytes.size(), prefix_bytes));
  const auto found = get<std::uint32_t>(bytes, 8);
  if (found != schema)
    throw_data(fmt::format("'{}' has schema {}, this version reads {}; use the version that wrote it", path,
                           found, schema));
  const auto size = get<std::uint64_t>(bytes, 16), header_bytes = get<std::uint64_t>(bytes, 24);
  if (bytes.size() < size)
    throw_data(fmt::format("'{}' is cut short: {} bytes of {}; copy it again, or compute its lanes again",
                           path, bytes.size(), size));
  if (bytes.size() > size) damaged(path, fmt::format("{} bytes, and it says {}", bytes.size(), size));
  if (size < prefix_bytes + digest_bytes || header_bytes > size - prefix_bytes - digest_bytes)
    damaged(path, fmt::format("a header of {} bytes in a file of {}", header_bytes, size));
  const std::string_view body = bytes.substr(0, size - digest_bytes);
  const Blake3::Digest digest = Blake3().update(body).digest();
  if (std::memcmp(digest.data(), bytes.data() + body.size(), digest_bytes) != 0)
    damaged(path, "its checksum is not that of its bytes");

  PartialFile partial;
  try {
    const Json header = Json::parse(body.substr(prefix_bytes, header_bytes));
    partial.parameters = header.at("parameters");
    partial.context = header.at("context");
    const Json& sums = header.at("sums");
    partial.sums.cell_count = sums.at("cell_count").get<std::int64_t>();
    partial.sums.grids_per_pass = sums.at("grids_per_pass").get<int>();
    partial.sums.first_grid = sums.at("first_grid").get<std::int64_t>();
    partial.sums.scale = sums.at("scale").get<double>();
    partial.sums.segments = sums.at("segments").get<std::int64_t>();
    partial.sums.rejected = sums.at("rejected").get<std::int64_t>();
    partial.seconds = sums.at("seconds").get<double>();
    for (const Json& window : sums.at("windows"))
      partial.sums.windows.push_back({window.at(0).get<std::int64_t>(), window.at(1).get<std::int64_t>()});
    Arrays arrays(body.substr(prefix_bytes + header_bytes), path);
    partial.is_open = arrays.take<std::uint8_t>(header.at("open_cells").get<std::uint64_t>(), "open cells");
    partial.outlines = arrays.take<Segment>(header.at("outlines").get<std::uint64_t>(), "outlines");
    const auto grids = sums.at("grid_count").get<std::uint64_t>();
    if (partial.sums.cell_count < 1 ||
        grids > arrays.left() / static_cast<std::uint64_t>(partial.sums.cell_count))
      damaged(path, fmt::format("{} grids of {} cells do not fit into the {} bytes left", grids,
                                partial.sums.cell_count, arrays.left()));
    partial.sums.cells =
        arrays.take<ExactCell>(grids * static_cast<std::uint64_t>(partial.sums.cell_count), "cell sums");
    if (arrays.left() > 0) damaged(path, fmt::format("{} bytes are left over", arrays.left()));
  } catch (const Json::exception& error) {
    damaged(path, fmt::format("its header does not say what it should ({})", error.what()));
  }
  check_sums(partial.sums, path);
  return partial;
}

PartialFile read_partial(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_data(fmt::format("'{}' cannot be read ({}); check the name", path, std::strerror(errno)));
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (file.bad()) throw_data(fmt::format("'{}' cannot be read to its end ({})", path, std::strerror(errno)));
  return parse_partial(bytes.view(), path);
}

void check_same_run(const Json& mine, const std::string& here, const Json& other, const std::string& there) {
  const auto value = [](const Json& parameters, const std::string& key) {
    return parameters.contains(key) ? parameters[key].dump() : std::string("not given");
  };
  const auto refuse = [&](const std::string& key) {
    throw_data(fmt::format("{} is of another run than {}: {} is {} there, and {} here; give parts of one run",
                           there, here, key, value(other, key), value(mine, key)));
  };
  for (const auto& [key, wanted] : mine.items())
    if (!other.contains(key) || other[key] != wanted) refuse(key);
  for (const auto& [key, found] : other.items())
    if (!mine.contains(key)) refuse(key);
}

std::string windows_text(const std::vector<Window>& windows) {
  constexpr std::size_t shown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, windows.size()); ++i)
    text += fmt::format("{}{} to {}", i == 0 ? "" : ", ", windows[i].begin, windows[i].end());
  if (windows.size() > shown) text += fmt::format(", and {} more", windows.size() - shown);
  return text;
}

}  // namespace shardwise::program
