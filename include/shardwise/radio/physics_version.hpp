#pragma once

namespace shardwise {

/// Of what coverage() computes: raised with every change that changes a bit of some map, so that kept maps of
/// before are not taken for those of now. A test holds digests of the version's maps.
inline constexpr int physics_version = 1;

}  // namespace shardwise
