#include "cluster/rank_fixture.hpp"

namespace shardwise::testing {

Communicator& ranks() {
  static const std::shared_ptr<Communicator> one = single_process();
  return *one;
}

}  // namespace shardwise::testing
