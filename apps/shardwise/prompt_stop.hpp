#pragma once
// A signal ends what has nothing to keep, wherever it is.

#include <condition_variable>
#include <mutex>
#include <thread>

namespace shardwise::program {

/// While one lives, a signal that the program has not heard within half a second ends the process as main()
/// would: the same line, the same exit code, no half-written file. For work between whose steps seconds pass
/// and which nobody misses: the building of a scene of a benchmark, a long call of it. Its destructor waits
/// for nothing but its own thread.
class PromptStop {
 public:
  PromptStop();
  ~PromptStop();
  PromptStop(const PromptStop&) = delete;
  PromptStop& operator=(const PromptStop&) = delete;

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace shardwise::program
