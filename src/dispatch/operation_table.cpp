#include "shardwise/dispatch/operation_table.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise {

namespace {

constexpr const char* everywhere = "host, cuda, sim";
constexpr const char* any_sink = "to_master, to_host, resident, offload, reduce";
constexpr auto rows = OperationClass::rows;

constexpr std::array table{
    OperationEntry{"intersect", "reduced", rows, 24, 4, everywhere, any_sink},
    OperationEntry{"intersect", "full", rows, 24, 72, everywhere, any_sink},
    OperationEntry{"nearest_edge", "point", rows, 12, 33, everywhere, any_sink},
    OperationEntry{"nearest_edge", "ray", rows, 24, 49, everywhere, any_sink},
    OperationEntry{"nearest_edges", "4", rows, 12, 184, everywhere, any_sink},
    OperationEntry{"visible", "", rows, 24, 1, everywhere, any_sink},
    OperationEntry{"visible_pair", "", rows, 36, 2, everywhere, any_sink},
    OperationEntry{"visible_edge", "", rows, 44, 1, everywhere, any_sink},
    OperationEntry{"visible_chain", "4", rows, 48, 9, everywhere, any_sink},
    OperationEntry{"trace_reflections", "4", rows, 24, 84, everywhere, any_sink},
    OperationEntry{"segment_penetration", "8", rows, 24, 382, everywhere, any_sink},
    OperationEntry{"sample_ray", "", rows, 8, 24, everywhere, any_sink},
    OperationEntry{"sample_to_world", "", rows, 8, 12, everywhere, any_sink},
    OperationEntry{"world_to_sample", "", rows, 12, 9, everywhere, any_sink},
    OperationEntry{"coverage", "", OperationClass::lanes, 0, 0, everywhere, "to_host"},
    OperationEntry{"accumulate_reflections", "", OperationClass::lanes, 24, 0, everywhere, "to_host"},
};

}  // namespace

std::span<const OperationEntry> operation_table() {
  return table;
}

const OperationEntry* find_operation(const std::string& name) {
  const std::string family = name.substr(0, name.find(':'));
  const std::string shape = family.size() == name.size() ? "" : name.substr(family.size() + 1);
  const OperationEntry* found = nullptr;
  for (const OperationEntry& entry : table) {
    if (family != entry.family) continue;
    // Another shape of the family is known by the family.
    if (!found || shape == entry.shape) found = &entry;
  }
  return found;
}

void require_operation(const std::string& name, const std::string& what) {
  if (find_operation(name)) return;
  std::vector<std::string> names;
  for (const OperationEntry& entry : table)
    if (names.empty() || names.back() != entry.family) names.push_back(entry.family);
  const std::string near = nearest_word(name.substr(0, name.find(':')), names);
  throw_usage(fmt::format("{}: there is no operation '{}'{}", what, name,
                          near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                       : fmt::format("; did you mean '{}'?", near)));
}

}  // namespace shardwise
