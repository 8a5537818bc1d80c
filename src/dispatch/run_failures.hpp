#pragma once

#include <exception>
#include <mutex>
#include <vector>

#include "shardwise/dispatch/executor.hpp"

namespace shardwise {

struct Run::Failures {
  struct Failure {
    int device = 0;
    int operation = 0;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::vector<Failure> list;
};

}  // namespace shardwise
