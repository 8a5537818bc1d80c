#pragma once

#include <optional>
#include <string>

#include "shardwise/jobs/job.hpp"

namespace shardwise {

struct JobProgram::State {
  std::string name;
  NativeProgram native;  ///< or the host twin of a source
  bool blocks = false;
  std::optional<CudaSource> source;  ///< for CUDA devices
};

}  // namespace shardwise
