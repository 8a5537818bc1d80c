#pragma once
// Where transmitters and the map stand: heights as they are typed, and as the scene makes them absolute. The
// one place where coordinates of the command line become coordinates of the scene.

#include <string>

#include "surfaces.hpp"

namespace shardwise::program {

/// `12`, `roof+3` or `ground+1.5`.
struct Height {
  enum class Above { zero, roof, ground } above = Above::zero;
  double metres = 0;
};

/// `x,y,z` as typed.
struct Site {
  double x = 0, y = 0;
  Height z;
  std::string text;
};

/// Throws usage errors that name the option and the text found.
Height parse_height(const std::string& option, const std::string& text);
Site parse_site(const std::string& option, const std::string& text);

/// A site of the file's coordinates in the scene's, which are less by `origin_shift`: the roof is the highest
/// surface at (x, y), the ground the lowest, to the millimetre. Throws a usage error where there is none.
Vec3d place_site(const std::string& option, const Site& site, const Surfaces& surfaces,
                 const Vec3d& origin_shift = {});

/// The z of a horizontal map over `area`, which is in the scene's coordinates, as the z is. `ground+h` counts
/// from the highest ground in it; throws a usage error where the ground is not flat to 0.5 m, is not there,
/// or for `roof+h`.
double place_map(const std::string& option, const Height& height, const Area& area, const Surfaces& surfaces,
                 const Vec3d& origin_shift = {});

}  // namespace shardwise::program
