#include "prompt_stop.hpp"

#include <unistd.h>

#include <chrono>

#include "log.hpp"
#include "signals.hpp"

namespace shardwise::program {
namespace {

// A signal handler cannot wake a thread that waits, so this one looks.
constexpr std::chrono::milliseconds kBetweenLooks{50}, kGrace{500};

}  // namespace

PromptStop::PromptStop() : thread_([this] { watch(); }) {}

PromptStop::~PromptStop() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void PromptStop::watch() {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return over_; };
  while (caught_signal() == 0)
    if (wake_.wait_for(lock, kBetweenLooks, is_over)) return;
  if (wake_.wait_for(lock, kGrace, is_over)) return;
  log_error(stop_text(caught_signal()));
  remove_temporaries();
  _exit(128 + caught_signal());
}

}  // namespace shardwise::program
