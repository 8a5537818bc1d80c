#pragma once
// The threads of one host device: a TBB arena of fixed width. A stream's worker thread takes one of its
// slots.

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "shardwise/runtime/operation.hpp"

namespace shardwise {

class ThreadPool {
 public:
  explicit ThreadPool(int threads) : arena_(std::max(threads, 1)), threads_(std::max(threads, 1)) {}

  int threads() const { return threads_; }

  void parallel_for(std::int64_t count, std::int64_t grain, const RangeFunction& function) {
    grain = std::max<std::int64_t>(grain, 1);
    if (threads_ == 1 || count <= grain) {
      for (std::int64_t begin = 0; begin < count; begin += grain)
        function(begin, std::min(begin + grain, count));
      return;
    }
    const std::int64_t pieces = (count + grain - 1) / grain;
    arena_.execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<std::int64_t>(0, pieces, 1),
          [&](const tbb::blocked_range<std::int64_t>& range) {
            for (std::int64_t piece = range.begin(); piece < range.end(); ++piece)
              function(piece * grain, std::min((piece + 1) * grain, count));
          },
          tbb::simple_partitioner());
    });
  }

  /// Runs `function` inside the arena, so that libraries on TBB use this device's threads.
  template <class Function>
  void execute(Function&& function) {
    arena_.execute(std::forward<Function>(function));
  }

 private:
  tbb::task_arena arena_;
  int threads_;
};

}  // namespace shardwise
