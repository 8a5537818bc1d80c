#include "rank_work.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/lpt.hpp"

namespace shardwise::program {
namespace {

/// A shared file system may show a new file late.
bool shows(const std::filesystem::path& file, const std::string& text) {
  for (int tries = 0; tries < 50; ++tries) {
    if (read_if_there(file) == text) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

}  // namespace

std::unique_ptr<RunFolder> open_folder_together(const std::string& path, const std::string& command,
                                                bool join) {
  if (!has_ranks()) return std::make_unique<RunFolder>(path, command, join);
  const std::filesystem::path mark = std::filesystem::path(path) / ".shardwise" / "ranks";
  std::unique_ptr<RunFolder> folder;
  std::string token;
  if (is_first_rank()) {
    folder = std::make_unique<RunFolder>(path, command, join);
    token = fmt::format("{} {} {}", ranks().host(0), static_cast<long>(getpid()),
                        std::chrono::system_clock::now().time_since_epoch().count());
    write_by_rename(mark, token);
  }
  ranks().broadcast(token, 0, "the folder's mark");
  if (!is_first_rank()) {
    if (!shows(mark, token))
      throw_usage(
          fmt::format("-o '{}' on host {} is not the folder of rank 0 on host {}; name one on a file system "
                      "that all ranks share",
                      path, ranks().host(ranks().rank()), ranks().host(0)));
    folder = std::make_unique<RunFolder>(path, command, true);
  }
  ranks().barrier("the folder is everybody's");
  return folder;
}

std::vector<std::size_t> units_of_this_rank(const std::vector<std::size_t>& todo,
                                            const std::vector<std::uint64_t>& costs, int device_count) {
  if (!has_ranks()) return todo;
  const double speed = device_count;
  std::vector<DeviceLoad> loads;
  for (const std::vector<std::byte>& bytes :
       ranks().gather_all(std::as_bytes(std::span(&speed, 1)), "devices of the ranks")) {
    DeviceLoad load{static_cast<int>(loads.size()), 0, 1};
    std::memcpy(&load.speed, bytes.data(), sizeof load.speed);
    loads.push_back(load);
  }
  std::vector<std::int32_t> owner(costs.size(), -1);
  if (is_first_rank()) {
    std::vector<CostItem> items;
    for (const std::size_t unit : todo) items.push_back({unit, costs[unit]});
    for (const DeviceAssignment& rank : partition_lpt(loads, items).devices)
      for (const auto id : rank.ids) owner[static_cast<std::size_t>(id)] = rank.device;
  }
  ranks().broadcast(std::as_writable_bytes(std::span(owner)), 0, "placement of the units");
  std::vector<std::size_t> mine;
  for (std::size_t unit = 0; unit < owner.size(); ++unit)
    if (owner[unit] == ranks().rank()) mine.push_back(unit);
  return mine;
}

}  // namespace shardwise::program
