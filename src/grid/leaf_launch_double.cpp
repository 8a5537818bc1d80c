// The bodies of all leaves in double on the host.

#include "grid/leaf_dispatch.hpp"

namespace shardwise {

template <>
void launch_leaf(LaunchContext& context, const LeafCall<double>& call) {
  launch_leaf_here(context, call);
}

}  // namespace shardwise
