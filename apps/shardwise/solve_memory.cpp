#include "solve_memory.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "grid/blocks_state.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise::program {

namespace {

std::uint64_t word_bytes(bool single) {
  return single ? sizeof(float) : sizeof(double);
}

/// Of one whole array on its way to or from the blocks: doubles, and the same in the field's own type.
std::uint64_t array_bytes(std::uint64_t cells, bool single) {
  return cells * (sizeof(double) + word_bytes(single));
}

std::int64_t kappa_components(const SolveRequest& r) {
  return r.kappa ? r.kappa->components() : 0;
}

[[noreturn]] void refuse(const std::string& shape, const std::string& where, std::uint64_t needed,
                         std::uint64_t there, const std::string& cure) {
  throw Error(
      ErrorClass::memory,
      fmt::format("solve: {} cells need at least {} ({} bytes) {}, {} ({} bytes) are there; use fewer "
                  "cells{}",
                  shape, human_bytes(needed), needed, where, human_bytes(there), there, cure));
}

std::string cure_of(bool single) {
  return single ? "" : " or --precision float";
}

Device& device_of(const Blocks& blocks, int part) {
  return blocks.state().transport->compute(part).device();
}

}  // namespace

void require_host_arrays(const std::vector<std::int64_t>& cells, bool single, std::int64_t arrays) {
  const CartesianGrid grid(
      GridSpec{std::vector<double>(cells.size(), 0), std::vector<double>(cells.size(), 1), cells, {}, {}});
  const auto count = static_cast<std::uint64_t>(grid.cell_count());  // at most 2^40
  const std::uint64_t needed =
      array_bytes(count, single) + static_cast<std::uint64_t>(arrays) * count * sizeof(double);
  const std::uint64_t there = available_memory();
  if (needed > there)
    refuse(grid.shape_text(), "of the host's memory for whole arrays", needed, there, cure_of(single));
}

std::int64_t solve_fields(const SolveRequest& r) {
  const std::int64_t kappa = kappa_components(r);
  if (r.problem == "heat") {
    // u, what the walls add, the source at a time, the stages; a source that does not change.
    const std::int64_t stages = r.scheme == TimeScheme::euler ? 1 : r.scheme == TimeScheme::ssp_rk3 ? 2 : 3;
    const bool steady = r.source.given() && !(r.source.formula && r.source.formula->uses_time());
    return 3 + stages + steady + kappa;
  }
  // u, f, what the walls add, the solver's right-hand side and work; r, p, A p. Jacobi: the diagonal.
  // Multigrid: z, and the finest level's residual, diagonal and coefficients.
  return 8 + (r.jacobi ? 1 : 0) + (r.multigrid ? 3 + kappa : 0) + kappa;
}

SolveNeed solve_need(const SolveRequest& r, const Blocks& blocks) {
  SolveNeed need;
  const std::uint64_t word = word_bytes(r.single), fields = static_cast<std::uint64_t>(solve_fields(r));
  std::uint64_t on_host = 0;
  std::vector<const Device*> seen;
  for (const int part : blocks.local_parts()) {
    Device& device = device_of(blocks, part);
    const auto cells = static_cast<std::uint64_t>(blocks.local_grid(part).cell_count());
    auto at = std::ranges::find(seen, &device);
    if (at == seen.end()) {
      seen.push_back(&device);
      need.devices.push_back({device.name(), 0, 0, device.free_memory()});
      at = seen.end() - 1;
    }
    SolveDeviceNeed& entry = need.devices[static_cast<std::size_t>(at - seen.begin())];
    const BlockLayout layout = block_layout(blocks.local_grid(part), blocks.layout(), static_cast<int>(word));
    const std::uint64_t bytes = fields * word * static_cast<std::uint64_t>(layout.size);
    entry.cells += cells;
    entry.bytes += bytes;
    if (device.kind() != PlatformKind::cuda) on_host += bytes;
  }
  // Arrays that were given, and kappa, stay; a whole array comes and goes when no work fields are there yet.
  const auto count = static_cast<std::uint64_t>(r.grid->cell_count());
  std::uint64_t kept = static_cast<std::uint64_t>(kappa_components(r));
  for (const CellValues* values : {&r.rhs, &r.initial, &r.source, &r.guess}) kept += values->array ? 1 : 0;
  need.host_bytes = kept * count * sizeof(double) + std::max(on_host, array_bytes(count, r.single));
  need.host_free_bytes = available_memory();
  return need;
}

void require_memory(const SolveRequest& r, const SolveNeed& need, bool host) {
  for (const SolveDeviceNeed& device : need.devices)
    if (device.bytes > device.free_bytes)
      refuse(fmt::format("{} of the {}", device.cells, r.grid->shape_text()), "on device " + device.name,
             device.bytes, device.free_bytes, cure_of(r.single) + ", or more devices");
  if (host && need.host_bytes > need.host_free_bytes)
    refuse(r.grid->shape_text(), "of the host's memory", need.host_bytes, need.host_free_bytes,
           cure_of(r.single));
}

std::vector<std::pair<std::string, std::uint64_t>> solve_peaks(const Blocks& blocks) {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  std::vector<const Device*> seen;
  for (const int part : blocks.local_parts()) {
    Device& device = device_of(blocks, part);
    if (std::ranges::find(seen, &device) != seen.end()) continue;
    seen.push_back(&device);
    result.emplace_back(device.name(), device.memory(MemoryUse::work).peak());
  }
  return result;
}

}  // namespace shardwise::program
