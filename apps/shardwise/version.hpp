#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shardwise::program {

struct BuildFacts {
  std::string version, commit, compiler, cuda_compiler, cuda_architectures, build_type, sanitizer,
      library_kind;
  /// What was built in: {part, "yes" or why not}.
  std::vector<std::pair<std::string, bool>> parts;
};

const BuildFacts& build_facts();

/// What `--version` prints.
std::string version_text();

}  // namespace shardwise::program
