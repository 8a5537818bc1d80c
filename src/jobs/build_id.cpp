#include "jobs/build_id.hpp"

#include "commit.hpp"

namespace shardwise {

const std::string& build_id() {
  // The definitions come from this folder's CMakeLists.txt.
  static const std::string id = SHARDWISE_VERSION ", commit " SHARDWISE_COMMIT ", " SHARDWISE_COMPILER;
  return id;
}

}  // namespace shardwise
