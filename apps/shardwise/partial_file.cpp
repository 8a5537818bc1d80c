#include "partial_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "sealed_file.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

constexpr SealedKind kind{std::string_view("SWPART\0\0", 8), 1,
                          "no part of a coverage run; give a file of --partial or --checkpoint",
                          "copy it again, or compute its lanes again",
                          "leave it out and compute its lanes again"};
static_assert(sizeof(Segment) == 4 * sizeof(double) && sizeof(ExactCell) == 32);

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw_damaged(kind, path, what);
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
  const Json header = {{"schema", kind.schema},
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
  return seal(kind, header, {bytes_of(partial.is_open), bytes_of(partial.outlines), bytes_of(sums.cells)});
}

PartialFile parse_partial(std::string_view bytes, const std::string& path) {
  const Unsealed file = unseal(kind, bytes, path);
  PartialFile partial;
  try {
    const Json header = Json::parse(file.header);
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
    Arrays arrays(file.payload, path);
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
  return parse_partial(read_sealed(path), path);
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
