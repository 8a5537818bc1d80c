// The bodies of all leaves in float on the host.

#include "grid/leaf_dispatch.hpp"

namespace shardwise {

template <>
void launch_leaf(LaunchContext& context, const LeafCall<float>& call) {
  launch_leaf_here(context, call);
}

}  // namespace shardwise
