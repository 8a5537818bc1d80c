#pragma once
// A slightly larger triangle in the same plane.
//
// Embree's edge test is not the shared one, and even its robust mode passes between triangles for some rays
// that aim straight at a vertex. So Embree is given covers: whatever the shared formula accepts lies well
// inside some cover, and a candidate that only the cover's rim brings is sorted out by the formula.

#include <array>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// A triangle that contains every point of the plane of (a, b, c) within `rim` of that triangle, before
/// rounding. Not degenerate on input. At most twice as large as the triangle, plus a few rims.
inline std::array<Vec3d, 3> cover_of(Vec3d a, Vec3d b, Vec3d c, double rim) {
  const double ab = length(b - a), bc = length(c - b), ca = length(a - c), around = ab + bc + ca;
  const double doubled_area = length(cross(b - a, c - a));
  const double inradius = doubled_area / around;
  if (rim <= inradius) {
    // All sides move outward by rim when the triangle is scaled about the centre of its inscribed circle.
    const Vec3d centre = (1 / around) * (bc * a + ca * b + ab * c);
    const double scale = 1 + rim / inradius;
    return {centre + scale * (a - centre), centre + scale * (b - centre), centre + scale * (c - centre)};
  }
  // A needle: scaling would throw its tips far away. Along the longest side [p, q], with height h to the
  // third corner, it lies in a strip of half-width w = h / 2 + rim; a triangle of twice the strip's length
  // and base 4 w, base at p's end, has half-width w where the strip ends:
  //
  //      |\___                       x from -rim to length + rim: the strip
  //   2w |    \___ w                 apex at twice that length
  //      |________\___
  Vec3d p = a, q = b, top = c;
  if (bc > ab && bc >= ca) p = b, q = c, top = a;
  if (ca > ab && ca > bc) p = c, q = a, top = b;
  const double side = length(q - p), height = doubled_area / side, half_width = 0.5 * height + rim;
  const Vec3d x = normalized(q - p);
  const Vec3d off = top - p;
  const Vec3d y = normalized(off - dot(off, x) * x);
  const Vec3d base = p - rim * x + (0.5 * height) * y;
  return {base + (2 * half_width) * y, base - (2 * half_width) * y, base + (2 * (side + 2 * rim)) * x};
}

}  // namespace shardwise
