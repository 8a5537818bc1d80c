#pragma once
// The outlines of buildings as a picture from above needs them.

#include <array>
#include <vector>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise::program {

/// One shape's triangles, as corner points (scene coordinates).
using TriangleSoup = std::vector<std::array<Vec3f, 3>>;

struct Segment {
  double x0, y0, x1, y1;
};

/// Segments in the two in-plane axes (increasing order) of the plane with normal `axis`.
///
/// An edge counts where it has one face, or where one of its faces is seen from the plane's side and another
/// stands on edge (a roof's border with its wall). Edges between two visible faces (inside a roof) or two
/// standing ones (a wall's corner, a point from above) do not. Edges are keyed by the positions of their
/// ends. A shape that is flat (under 1 m) and covers a fifth of the scene's footprint is ground and has no
/// outline.
std::vector<Segment> outlines(const std::vector<TriangleSoup>& shapes, int axis);

}  // namespace shardwise::program
