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
    std::lock_guard lock(hook_mutex);
    if (error_hook)
      error_hook(message);
    else
      std::fprintf(stderr, "shardwise: error of a call that nobody waited for: %s\n", message.c_str());
  } catch (...) {
    std::fprintf(stderr, "shardwise: the error hook threw\n");
  }
}

}  // namespace shardwise
