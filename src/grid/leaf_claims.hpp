#pragma once

#include <string>

#include "shardwise/grid/operator.hpp"

namespace shardwise {

class Blocks;

/// Tries the claims of the user's leaves of a tree on random fields. Throws false_claim, naming the node,
/// what it claims and how far it is from that.
template <class T>
void check_claims(const Operator& op, const Blocks& blocks, const std::string& path);

}  // namespace shardwise
