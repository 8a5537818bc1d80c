#include "colour_map.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace shardwise::program {
namespace {

using Triple = std::array<double, 3>;

// The D65 white point in XYZ (CIE 15).
constexpr Triple white{0.95047, 1.0, 1.08883};

double lab_forward(double t) {
  return t > 216.0 / 24389 ? std::cbrt(t) : (24389.0 / 27 * t + 16) / 116;
}
double lab_backward(double f) {
  return f > 6.0 / 29 ? f * f * f : (116 * f - 16) * 27 / 24389;
}
double decode(double c) {
  return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
}
double encode(double c) {
  return c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
}

/// Linear-light sRGB of a Lab colour; outside 0 to 1 where sRGB has no such colour (matrix of IEC 61966-2-1).
Triple lab_to_linear(const Triple& lab) {
  const double fy = (lab[0] + 16) / 116;
  const double x = white[0] * lab_backward(fy + lab[1] / 500), y = white[1] * lab_backward(fy),
               z = white[2] * lab_backward(fy - lab[2] / 200);
  return {3.2404542 * x - 1.5371385 * y - 0.4985314 * z, -0.9692660 * x + 1.8760108 * y + 0.0415560 * z,
          0.0556434 * x - 0.2040259 * y + 1.0572252 * z};
}

bool displayable(const Triple& lab) {
  return std::ranges::all_of(lab_to_linear(lab), [](double c) { return c >= 0 && c <= 1; });
}

Triple lab_of(double lightness, double chroma, double hue_degrees) {
  const double angle = hue_degrees * std::numbers::pi / 180;
  return {lightness, chroma * std::cos(angle), chroma * std::sin(angle)};
}

/// Half the largest chroma that sRGB shows at this lightness and hue comes from bisection.
double largest_chroma(double lightness, double hue) {
  double low = 0, high = 150;
  for (int i = 0; i < 30; ++i) {
    const double middle = (low + high) / 2;
    (displayable(lab_of(lightness, middle, hue)) ? low : high) = middle;
  }
  return low;
}

std::vector<Triple> make_path() {
  constexpr int steps = 1024;
  std::vector<double> lightness(steps), hue(steps), chroma(steps);
  for (int i = 0; i < steps; ++i) {
    const double t = static_cast<double>(i) / (steps - 1);
    lightness[i] = 16 + 76 * t;
    hue[i] = 312 - 212 * std::pow(t, 1.15);  // violet, blue, teal, green, yellow
    chroma[i] = 0.92 * largest_chroma(lightness[i], hue[i]);
  }
  // The border of the displayable colours has kinks; a running minimum, then a running mean, keeps inside it
  // and smooth.
  constexpr int half = 90;
  std::vector<double> lower(steps), smooth(steps);
  for (int i = 0; i < steps; ++i) {
    const int first = std::max(0, i - half), last = std::min(steps - 1, i + half);
    lower[i] = *std::min_element(chroma.begin() + first, chroma.begin() + last + 1);
  }
  std::vector<Triple> path(steps);
  for (int i = 0; i < steps; ++i) {
    const int first = std::max(0, i - half), last = std::min(steps - 1, i + half);
    double sum = 0;
    for (int j = first; j <= last; ++j) sum += lower[j];
    smooth[i] = std::min(sum / (last - first + 1), chroma[i]);
    path[i] = lab_of(lightness[i], smooth[i], hue[i]);
  }
  return path;
}

std::array<Rgb, 256> make_table() {
  const std::vector<Triple> path = make_path();
  std::vector<double> along(path.size(), 0);
  for (std::size_t i = 1; i < path.size(); ++i) {
    along[i] = along[i - 1] + std::hypot(path[i][0] - path[i - 1][0], path[i][1] - path[i - 1][1],
                                         path[i][2] - path[i - 1][2]);
  }
  std::array<Rgb, 256> table;
  std::size_t upper = 1;
  for (int k = 0; k < 256; ++k) {
    const double target = along.back() * k / 255;
    while (upper + 1 < path.size() && along[upper] < target) ++upper;
    const double share =
        std::clamp((target - along[upper - 1]) / (along[upper] - along[upper - 1]), 0.0, 1.0);
    Triple lab;
    for (int c = 0; c < 3; ++c) lab[c] = path[upper - 1][c] + share * (path[upper][c] - path[upper - 1][c]);
    const Triple linear = lab_to_linear(lab);
    table[k] = {encode(std::clamp(linear[0], 0.0, 1.0)), encode(std::clamp(linear[1], 0.0, 1.0)),
                encode(std::clamp(linear[2], 0.0, 1.0))};
  }
  return table;
}

}  // namespace

const std::array<Rgb, 256>& colour_table() {
  static const std::array<Rgb, 256> table = make_table();
  return table;
}

Rgb colour_at(double value) {
  const double position = std::clamp(value, 0.0, 1.0) * 255;
  const int low = std::min(static_cast<int>(position), 254);
  const double share = position - low;
  const Rgb &a = colour_table()[low], &b = colour_table()[low + 1];
  return {a.r + share * (b.r - a.r), a.g + share * (b.g - a.g), a.b + share * (b.b - a.b)};
}

std::array<double, 3> to_lab(const Rgb& colour) {
  const double r = decode(colour.r), g = decode(colour.g), b = decode(colour.b);
  const double x = 0.4124564 * r + 0.3575761 * g + 0.1804375 * b,
               y = 0.2126729 * r + 0.7151522 * g + 0.0721750 * b,
               z = 0.0193339 * r + 0.1191920 * g + 0.9503041 * b;
  const double fx = lab_forward(x / white[0]), fy = lab_forward(y / white[1]), fz = lab_forward(z / white[2]);
  return {116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)};
}

}  // namespace shardwise::program
