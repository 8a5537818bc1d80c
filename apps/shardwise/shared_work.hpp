#pragma once
// Work that several processes share through a RunFolder.

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {

/// Waits until each of the units that other processes have is settled, or some are free again; the free ones,
/// and those behind them that are not settled. `is_settled` may take a unit's result in; `noun` names units
/// in the progress line ("jobs"). Throws Error{interrupted} after a signal.
std::vector<std::size_t> wait_for_units(const std::vector<std::size_t>& undecided, const std::string& noun,
                                        const std::function<bool(std::size_t)>& is_settled,
                                        const std::function<bool(std::size_t)>& is_owned);

/// The first failure of the folder that jobs meet on their workers, for the thread that runs them: no job is
/// to be blamed for it.
class FolderProblem {
 public:
  /// What `may_begin` says; false where it cannot write (Error{io}), which is kept.
  bool admits(const std::function<bool()>& may_begin);
  void throw_if_any() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Error> first_;
};

}  // namespace shardwise::program
