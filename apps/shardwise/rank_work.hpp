#pragma once
// Jobs on ranks: rank 0 places, ranks pull. Each rank begins with the units that rank 0 placed on it and then
// takes what is left of the others', by claims in the folder that they share (run_folder.hpp), which also is
// the journal: what is done is there, so that after a rank died the same command does the rest.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "run_folder.hpp"

namespace shardwise::program {

/// The folder of results: rank 0 takes it, the others join. Collective; by itself a process takes or joins it
/// as `join` says. Throws usage errors: what RunFolder throws, and a folder that is not one and the same on
/// all ranks.
std::unique_ptr<RunFolder> open_folder_together(const std::string& path, const std::string& command,
                                                bool join);

/// The units of `todo` (rank 0's counts) that this rank begins with, in the order given: longest processing
/// time first over the ranks, by their number of devices. `costs` has one entry for each unit there is. All
/// of `todo` where one process runs. Collective.
std::vector<std::size_t> units_of_this_rank(const std::vector<std::size_t>& todo,
                                            const std::vector<std::uint64_t>& costs, int device_count);

}  // namespace shardwise::program
