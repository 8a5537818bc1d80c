#pragma once

#include <string>

namespace shardwise {

/// What this library was built from: version, commit, compiler. A worker of another build is refused.
const std::string& build_id();

}  // namespace shardwise
