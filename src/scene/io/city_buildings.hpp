#pragma once
// Solids of a city: walls and roofs over a footprint. Feet stand open on the ground; faces look outward.

#include <span>
#include <vector>

#include "shardwise/scene/mesh.hpp"

namespace shardwise::city {

struct Point2 {
  double x, y;
};

/// A rectangle along the axes.
struct Rect {
  double x0, y0, x1, y1;
  double width() const { return x1 - x0; }
  double depth() const { return y1 - y0; }
  Rect inset(double margin) const { return {x0 + margin, y0 + margin, x1 - margin, y1 - margin}; }
};

/// Corners counter-clockwise from above, from (x0, y0).
std::vector<Point2> corners_of(const Rect& rect);

/// The rectangle without the part beyond (cut_x, cut_y) towards `corner` (0 to 3, as corners_of counts), the
/// inner corner first: seen from there the whole L lies in view.
std::vector<Point2> l_shape(const Rect& rect, double cut_x, double cut_y, int corner);

/// Rotated about its centre by the angle whose half has the tangent `half_tangent`, and shrunk to stay in
/// `rect`. Only + - * / are used, so that every machine gets the same corners.
std::vector<Point2> rotated_in(const Rect& rect, double half_tangent);

/// Walls and a flat roof over a footprint that is star-shaped seen from its first corner. `roof` may be
/// `walls`.
void add_prism(std::span<const Point2> footprint, double base, double top, Mesh& walls, Mesh& roof);

/// A gable roof over four corners: walls up to `eave`, the ridge at `ridge` along the longer side.
void add_gabled(std::span<const Point2> footprint, double eave, double ridge, Mesh& walls, Mesh& roof);

/// Adds a horizontal rectangle looking up.
void add_ground(const Rect& rect, Mesh& ground);

}  // namespace shardwise::city
