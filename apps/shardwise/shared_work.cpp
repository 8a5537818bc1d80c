#include "shared_work.hpp"

#include <chrono>
#include <thread>

#include "progress.hpp"
#include "signals.hpp"

namespace shardwise::program {

std::vector<std::size_t> wait_for_units(const std::vector<std::size_t>& undecided, const std::string& noun,
                                        const std::function<bool(std::size_t)>& is_settled,
                                        const std::function<bool(std::size_t)>& is_owned) {
  std::vector<std::size_t> free, left = undecided;
  Progress progress("waiting for other processes", noun);
  while (!left.empty() && free.empty()) {
    throw_if_stopped();
    std::vector<std::size_t> still;
    for (const std::size_t unit : left) {
      if (is_settled(unit)) continue;
      if (is_owned(unit))
        still.push_back(unit);
      else if (!is_settled(unit))  // its owner may have ended between the two looks
        free.push_back(unit);
    }
    left = std::move(still);
    progress.update(static_cast<std::int64_t>(undecided.size() - left.size()),
                    static_cast<std::int64_t>(undecided.size()));
    if (free.empty() && !left.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  free.insert(free.end(), left.begin(), left.end());
  return free;
}

bool FolderProblem::admits(const std::function<bool()>& may_begin) {
  try {
    return may_begin();
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::io) throw;
    std::lock_guard lock(mutex_);
    if (!first_) first_ = error;
    return false;
  }
}

void FolderProblem::throw_if_any() const {
  std::lock_guard lock(mutex_);
  if (first_) throw Error(*first_);
}

}  // namespace shardwise::program
