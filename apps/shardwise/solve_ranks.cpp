#include "solve_ranks.hpp"

#include <fmt/format.h>

#include <cstring>

#include "progress.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "signals.hpp"
#include "table.hpp"

namespace shardwise::program {

namespace {

template <class T>
void share(std::vector<T>& values, const char* what) {
  auto size = static_cast<std::int64_t>(values.size());
  ranks().broadcast_value(size, 0, what);
  values.resize(static_cast<std::size_t>(size));
  ranks().broadcast(std::as_writable_bytes(std::span(values)), 0, what);
}

}  // namespace

NpyArray read_npy_on_ranks(const std::string& path) {
  NpyArray array;
  if (is_first_rank()) array = read_npy(path);
  if (!has_ranks()) return array;
  share(array.shape, "arrays");
  share(array.values, "arrays");
  return array;
}

std::optional<SolveState> share_state(const std::optional<SolveState>& state) {
  if (!has_ranks()) return state;
  std::string bytes = state ? state_bytes(*state) : std::string();
  ranks().broadcast(bytes, 0, "state");
  if (bytes.empty()) return {};
  return parse_state(bytes, "the state of rank 0");
}

void check_rank_request(const SolveRequest& r, const std::string& backend) {
  if (!has_ranks()) return;
  const int size = ranks().size();
  if (backend == "serial" || backend == "local")
    throw_usage(
        fmt::format("--backend {} under a launcher of {} ranks: each would solve the whole; leave it "
                    "out, or start one process",
                    backend, size));
  int product = 1;
  for (const int p : r.partition.process_grid) product *= std::max(p, 1);
  const bool fixed = r.partition.blocks &&
                     std::ranges::none_of(
                         std::span(r.partition.process_grid).first(static_cast<std::size_t>(r.grid->dims())),
                         [](int p) { return p == 0; });
  if (r.partition.parts > 0 && r.partition.parts != size)
    throw_usage(
        fmt::format("--parts {} under a launcher of {} ranks: a rank has one part in this version; "
                    "leave it out, or start {} ranks",
                    r.partition.parts, size, r.partition.parts));
  if (fixed && product != size)
    throw_usage(
        fmt::format("--process-grid has {} parts, the launcher started {} ranks; they have one each "
                    "(0 leaves a dimension free)",
                    product, size));
}

Blocks solve_rank_blocks(const SolveRequest& r, const DeviceSet& devices) {
  if (devices.size() > 1)
    throw_usage(
        fmt::format("--devices: '{}' has {} devices for rank {}, which uses one in this version; give "
                    "one (host:1xN for N threads), and start a rank for each",
                    devices.spec(), devices.size(), ranks().rank()));
  // Not owned: the program's ranks outlive every command.
  const std::shared_ptr<Communicator> all(std::shared_ptr<void>(), &ranks());
  return Blocks(*r.grid, Mpi{all, devices, r.partition.process_grid, r.partition.blocks, r.route});
}

bool stop_on_any_rank() {
  const bool stop = stop_requested().load();
  return has_ranks() ? !ranks().agree(!stop, "stop") : stop;
}

Json gather_solve_reports(const SolveRequest& r, const Blocks& blocks, const DeviceSet& devices,
                          const SolveOutcome& outcome) {
  const int part = ranks().rank();
  const CartesianGrid& grid = blocks.local_grid(part);
  // What one exchange sends: the planes beside the cuts.
  std::int64_t cells = 0;
  for (int d = 0; d < grid.dims(); ++d)
    for (int side = 0; side < 2; ++side)
      if (blocks.partition().neighbour(part, d, side) >= 0)
        cells += grid.cell_count() / grid.cells(d) * grid.halo(d);
  Json device = Json::array();
  for (int d = 0; d < devices.size(); ++d) device.push_back({{"name", devices[d].name()}});
  return gather_rank_reports({{"part", part},
                              {"cells", grid.cell_count()},
                              {"devices", device},
                              {"transport", blocks.transport()},
                              {"seconds", outcome.seconds},
                              {"exchanges", outcome.exchanges},
                              {"exchange_bytes_out", cells * (r.single ? 4 : 8)}});
}

std::string solve_rank_table(const Json& reports) {
  std::vector<std::vector<std::string>> rows{
      {"rank", "host", "device", "cells", "waited", "an exchange sends", "sent", "received"}};
  for (const Json& entry : reports) {
    std::string devices;
    for (const Json& device : entry["devices"])
      devices += (devices.empty() ? "" : "+") + device.value("name", "");
    rows.push_back({std::to_string(entry.value("rank", 0)), entry.value("host", ""), devices,
                    count_text(entry.value("cells", std::int64_t{0})),
                    short_time(entry.value("waited_s", 0.0)),
                    human_bytes(entry.value("exchange_bytes_out", std::uint64_t{0})),
                    human_bytes(entry.value("bytes_out", std::uint64_t{0})),
                    human_bytes(entry.value("bytes_in", std::uint64_t{0}))});
  }
  return table_text(rows);
}

}  // namespace shardwise::program
