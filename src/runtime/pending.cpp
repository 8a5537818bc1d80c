#include "shardwise/runtime/pending.hpp"

#include <cstdio>
#include <mutex>

namespace shardwise {

namespace {
std::mutex hook_mutex;
std::function<void(const std::string&)> error_hook;
}  // namespace

void set_error_hook(std::function<void(const std::string&)> hook) {
  std::lock_guard lock(hook_mutex);
  error_hook = std::move(hook);
}

void report_unwaited_error(const std::string& message) noexcept {
  try {
    // A copy, called outside the lock: a hook may set another hook, or drop another failing Pending.
    std::function<void(const std::string&)> hook;
    {
      std::lock_guard lock(hook_mutex);
      hook = error_hook;
    }
    if (hook) return hook(message);
    std::fprintf(stderr, "shardwise: error of a call that nobody waited for: %s\n", message.c_str());
  } catch (...) {
    std::fprintf(stderr, "shardwise: the error hook threw; it was given: %s\n", message.c_str());
  }
}

}  // namespace shardwise
