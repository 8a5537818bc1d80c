#pragma once
// A perceptually uniform colour map of our own: 256 colours along a smooth path in CIE L*a*b* (D65) from dark
// violet over blue and green to light yellow, equally spaced in colour difference (CIE 1976 Delta E),
// lightness rising throughout, so that it also reads in grey.

#include <array>
#include <cstdint>

namespace shardwise::program {

struct Rgb {
  double r = 0, g = 0, b = 0;  ///< sRGB, 0 to 1
};

/// The table; computed once.
const std::array<Rgb, 256>& colour_table();

/// The colour of `value` in [0, 1], clamped, interpolated linearly.
Rgb colour_at(double value);

/// L*, a*, b* of an sRGB colour (CIE 15: D65 white, IEC 61966-2-1 transfer function); the tests measure the
/// map by it.
std::array<double, 3> to_lab(const Rgb& colour);

}  // namespace shardwise::program
