#pragma once
// Work that several processes share through a RunFolder.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace shardwise::program {

/// Waits until each of the units that other processes have is settled, or some are free again; the free ones,
/// and those behind them that are not settled. `is_settled` may take a unit's result in; `noun` names units
/// in the progress line ("jobs"). Throws Error{interrupted} after a signal.
std::vector<std::size_t> wait_for_units(const std::vector<std::size_t>& undecided, const std::string& noun,
                                        const std::function<bool(std::size_t)>& is_settled,
                                        const std::function<bool(std::size_t)>& is_owned);

}  // namespace shardwise::program
