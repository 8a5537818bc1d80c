#pragma once
// sincos, arctan2 and exponential of our own in double precision: host and CUDA give the same bits, errors
// stay below 2 ulp.
//
// Series: Taylor on |x| <= pi/4 (sine to x^17, cosine to x^16; the first terms left out are below 2^-60),
// arguments carried as a sum of two doubles. Reduction: exact integer arithmetic on turns; radians go through
// 192 bits of 1/(2 pi) chosen by the exponent (M. Payne, R. Hanek, "Radian reduction for trigonometric
// functions", ACM SIGNUM 18(1), 1983), so that any finite argument keeps its accuracy.

#include <cmath>
#include <cstdint>

#include "shardwise/numeric/bits.hpp"

namespace shardwise {

struct SinCos {
  double sin, cos;
};

namespace detail {

/// sin and cos of hi + lo, |hi| <= pi/4 (and a little), |lo| <= ulp(hi).
SW_HD inline SinCos sincos_reduced(double hi, double lo) {
  const double z = hi * hi;
  double s = 0x1.952c77030ad4ap-49;  // 1/17!
  s = std::fma(s, z, -0x1.ae7f3e733b81fp-41);
  s = std::fma(s, z, 0x1.6124613a86d09p-33);
  s = std::fma(s, z, -0x1.ae64567f544e4p-26);
  s = std::fma(s, z, 0x1.71de3a556c734p-19);
  s = std::fma(s, z, -0x1.a01a01a01a01ap-13);
  s = std::fma(s, z, 0x1.1111111111111p-7);
  s = std::fma(s, z, -0x1.5555555555555p-3);
  const double sine = hi + std::fma(hi * z, s, lo * std::fma(-0.5, z, 1.0));

  double c = 0x1.ae7f3e733b81fp-45;  // 1/16!
  c = std::fma(c, z, -0x1.93974a8c07c9dp-37);
  c = std::fma(c, z, 0x1.1eed8eff8d898p-29);
  c = std::fma(c, z, -0x1.27e4fb7789f5cp-22);
  c = std::fma(c, z, 0x1.a01a01a01a01ap-16);
  c = std::fma(c, z, -0x1.6c16c16c16c17p-10);
  c = std::fma(c, z, 0x1.5555555555555p-5);
  const double z_low = std::fma(hi, hi, -z);
  const double half = 0.5 * z;
  const double base = 1.0 - half;
  const double rest = (1.0 - base) - half;  // what the subtraction rounded away
  const double cosine = base + (rest + std::fma(z * z, c, std::fma(-0.5, z_low, -hi * lo)));
  return {sine, cosine};
}

/// The rotation by `quarter` quarter turns.
SW_HD inline SinCos turn_quarters(SinCos a, unsigned quarter) {
  switch (quarter & 3u) {
    case 0:
      return a;
    case 1:
      return {a.cos, -a.sin};
    case 2:
      return {-a.sin, -a.cos};
    default:
      return {-a.cos, a.sin};
  }
}

/// hi + lo turns, |hi| <= 1/8, to radians in two doubles, then the series.
SW_HD inline SinCos sincos_turn_reduced(double hi, double lo) {
  const double two_pi = 0x1.921fb54442d18p+2, two_pi_low = 2.4492935982947064e-16;
  const double radians = hi * two_pi;
  const double error = std::fma(hi, two_pi, -radians);
  return sincos_reduced(radians, error + std::fma(hi, two_pi_low, lo * two_pi));
}

/// Words of 1/(2 pi), most significant first.
SW_HD inline std::uint64_t inverse_two_pi_word(int index) {
  static constexpr std::uint64_t words[21] = {
      0x28be60db9391054au, 0x7f09d5f47d4d3770u, 0x36d8a5664f10e410u, 0x7f9458eaf7aef158u, 0x6dc91b8e909374b8u,
      0x01924bba82746487u, 0x3f877ac72c4a69cfu, 0xba208d7d4baed121u, 0x3a671c09ad17df90u, 0x4e64758e60d4ce7du,
      0x272117e2ef7e4a0eu, 0xc7fe25fff7816603u, 0xfbcbc462d6829b47u, 0xdb4d9fb3c9f2c26du, 0xd3d18fd9a797fa8bu,
      0x5d49eeb1faf97c5eu, 0xcf41ce7de294a4bau, 0x9afed7ec47e35742u, 0x1580cc11bf1edaeau, 0xfc33ef0826bd0d87u,
      0x6a78e45857b986c2u};
  return words[index];
}

/// 64 bits of 1/(2 pi) from bit `first` on (bit 0 has weight 1/2).
SW_HD inline std::uint64_t inverse_two_pi_bits(int first) {
  const int word = first >> 6, shift = first & 63;
  const std::uint64_t high = inverse_two_pi_word(word) << shift;
  return shift == 0 ? high : high | (inverse_two_pi_word(word + 1) >> (64 - shift));
}

}  // namespace detail

/// sin and cos of the angle `fraction` x 2^-64 turns.
SW_HD inline SinCos sincos_turns(std::uint64_t fraction) {
  const std::uint64_t quarter = (fraction + (1ull << 61)) >> 62;
  const std::int64_t rest = static_cast<std::int64_t>(fraction - (quarter << 62));  // within +-2^61
  const double hi = static_cast<double>(rest);
  const double lo = static_cast<double>(rest - static_cast<std::int64_t>(hi));
  return detail::turn_quarters(detail::sincos_turn_reduced(hi * 0x1p-64, lo * 0x1p-64),
                               static_cast<unsigned>(quarter));
}

/// sin and cos of `turns` turns; whole turns are taken off exactly. NaN for infinity and NaN.
SW_HD inline SinCos sincos_turn(double turns) {
  if (!(turns - turns == 0.0)) return {turns - turns, turns - turns};
  const double size = turns < 0 ? -turns : turns;
  const double fraction = size - std::floor(size);  // exact, as is the next difference
  const double quarter = std::floor(fraction * 4.0 + 0.5);
  const SinCos result = detail::turn_quarters(detail::sincos_turn_reduced(fraction - quarter * 0.25, 0.0),
                                              static_cast<unsigned>(quarter));
  return turns < 0 ? SinCos{-result.sin, result.cos} : result;
}

/// sin and cos of any finite angle in radians. NaN for infinity and NaN.
SW_HD inline SinCos sincos(double radians) {
  const double size = radians < 0 ? -radians : radians;
  if (!(size - size == 0.0)) return {radians - radians, radians - radians};
  if (size <= 0x1.921fb54442d18p-1) return detail::sincos_reduced(radians, 0.0);

  const std::uint64_t bits = bit_cast<std::uint64_t>(size);
  const std::uint64_t mantissa = (bits & 0xfffffffffffffull) | (1ull << 52);
  const int exponent = static_cast<int>(bits >> 52) - 1075;  // size = mantissa x 2^exponent, exponent >= -53
  const int first = exponent > 0 ? exponent : 0;             // higher bits of 1/(2 pi) give whole turns
  // P = mantissa x 192 bits, the words p3 p2 p1 above the lowest.
  const WidePair low = multiply_wide(mantissa, detail::inverse_two_pi_bits(first + 128));
  const WidePair mid = multiply_wide(mantissa, detail::inverse_two_pi_bits(first + 64));
  const WidePair high = multiply_wide(mantissa, detail::inverse_two_pi_bits(first));
  const std::uint64_t p1 = low.high + mid.low;
  const std::uint64_t carry1 = p1 < low.high ? 1 : 0;
  const std::uint64_t p2_partial = mid.high + high.low;
  const std::uint64_t carry2 = p2_partial < mid.high ? 1 : 0;
  const std::uint64_t p2 = p2_partial + carry1;
  const std::uint64_t p3 = high.high + carry2 + (p2 < carry1 ? 1 : 0);
  // The 128 bits below the binary point.
  const int shift = exponent < 0 ? 64 + exponent : 0;
  std::uint64_t f1 = p2, f0 = p1;
  if (shift > 0) {
    f1 = (p3 << shift) | (p2 >> (64 - shift));
    f0 = (p2 << shift) | (p1 >> (64 - shift));
  }
  const std::uint64_t quarter = (f1 + (1ull << 61)) >> 62;
  f1 -= quarter << 62;
  const bool negative = (f1 >> 63) != 0;
  if (negative) {
    f0 = ~f0 + 1;
    f1 = ~f1 + (f0 == 0 ? 1 : 0);
  }
  int zeros = leading_zeros(f1);
  if (zeros == 64) {
    f1 = f0;
    f0 = 0;
  }
  const int left = zeros == 64 ? leading_zeros(f1) : zeros;
  if (zeros == 64) zeros += left;
  if (left > 0 && left < 64) {
    f1 = (f1 << left) | (f0 >> (64 - left));
    f0 <<= left;
  }
  const double scale = power_of_two(-53 - zeros);
  const double hi = static_cast<double>(f1 >> 11) * scale;
  const double lo = static_cast<double>(((f1 & 0x7ff) << 53) | (f0 >> 11)) * (scale * 0x1p-64);
  const SinCos reduced =
      negative ? detail::sincos_turn_reduced(-hi, -lo) : detail::sincos_turn_reduced(hi, lo);
  const SinCos result = detail::turn_quarters(reduced, static_cast<unsigned>(quarter));
  return radians < 0 ? SinCos{-result.sin, result.cos} : result;
}

/// The angle of (x, y) in [-pi, pi], with the sign conventions of IEEE 754 for zeros and infinities.
/// atan(q) = atan(c) + atan((q - c)/(1 + c q)) with c a multiple of 1/4; then the Taylor series to z^23.
SW_HD inline double arctan2(double y, double x) {
  if (!(x == x) || !(y == y)) return x + y;
  const bool y_negative = (bit_cast<std::uint64_t>(y) >> 63) != 0;
  const bool x_negative = (bit_cast<std::uint64_t>(x) >> 63) != 0;
  double large = x_negative ? -x : x, small = y_negative ? -y : y;
  const bool swapped = small > large;
  if (swapped) {
    const double other = large;
    large = small;
    small = other;
  }
  if (!(large - large == 0.0)) {  // infinite: reduce to the same quotient in finite numbers
    small = small == large ? 1.0 : 0.0;
    large = 1.0;
  } else if (large > 0x1p+1000) {
    large *= 0.25;
    small *= 0.25;
  } else if (large < 0x1p-900) {
    large *= 0x1p+100;
    small *= 0x1p+100;
  }
  double centre = 0, angle_high = 0, angle_low = 0;
  if (large > 0 && small >= 0.1875 * large) {
    if (small < 0.375 * large) {
      centre = 0.25, angle_high = 0x1.f5b75f92c80ddp-3, angle_low = 0x1.8ab6e3cf7afbdp-57;
    } else if (small < 0.625 * large) {
      centre = 0.5, angle_high = 0x1.dac670561bb4fp-2, angle_low = 0x1.a2b7f222f65e2p-56;
    } else if (small < 0.875 * large) {
      centre = 0.75, angle_high = 0x1.4978fa3269ee1p-1, angle_low = 0x1.2419a87f2a458p-56;
    } else {
      centre = 1.0, angle_high = 0x1.921fb54442d18p-1, angle_low = 0x1.1a62633145c07p-55;
    }
  }
  const double z = large > 0 ? std::fma(-centre, large, small) / std::fma(centre, small, large) : 0.0;
  const double w = z * z;
  double p = -1.0 / 23.0;
  p = std::fma(p, w, 1.0 / 21.0);
  p = std::fma(p, w, -1.0 / 19.0);
  p = std::fma(p, w, 1.0 / 17.0);
  p = std::fma(p, w, -1.0 / 15.0);
  p = std::fma(p, w, 1.0 / 13.0);
  p = std::fma(p, w, -1.0 / 11.0);
  p = std::fma(p, w, 1.0 / 9.0);
  p = std::fma(p, w, -1.0 / 7.0);
  p = std::fma(p, w, 1.0 / 5.0);
  p = std::fma(p, w, -1.0 / 3.0);
  const double tail = z * w * p;
  const double angle = angle_high + (z + (tail + angle_low));
  double result = angle;
  const double half_pi = 0x1.921fb54442d18p+0, half_pi_low = 0x1.1a62633145c07p-54;
  if (swapped) result = half_pi - (result - half_pi_low);
  if (x_negative) result = 2.0 * half_pi - (result - 2.0 * half_pi_low);
  return y_negative ? -result : result;
}

/// exp(x) for x <= 0 (and up to 700): 2^k times the Taylor series on |r| <= ln(2)/2, to r^13. Results below
/// the smallest normal number are 0.
SW_HD inline double exponential(double x) {
  if (!(x == x)) return x;
  if (x < -708.0) return 0.0;
  if (x > 709.0) return x * 0x1p+1023;  // infinity
  const double k = std::floor(x * 0x1.71547652b82fep+0 + 0.5);
  const double r_high = x - k * 0x1.62e42fee00000p-1;  // exact: the constant has 21 trailing zeros
  const double r_low = -(k * 0x1.a39ef35793c76p-33);
  const double r = r_high + r_low;
  const double rest = r_low - (r - r_high);
  double p = 0x1.6124613a86d09p-33;
  p = std::fma(p, r, 0x1.1eed8eff8d898p-29);
  p = std::fma(p, r, 0x1.ae64567f544e4p-26);
  p = std::fma(p, r, 0x1.27e4fb7789f5cp-22);
  p = std::fma(p, r, 0x1.71de3a556c734p-19);
  p = std::fma(p, r, 0x1.a01a01a01a01ap-16);
  p = std::fma(p, r, 0x1.a01a01a01a01ap-13);
  p = std::fma(p, r, 0x1.6c16c16c16c17p-10);
  p = std::fma(p, r, 0x1.1111111111111p-7);
  p = std::fma(p, r, 0x1.5555555555555p-5);
  p = std::fma(p, r, 0x1.5555555555555p-3);
  p = std::fma(p, r, 0.5);
  const double series = 1.0 + (r + std::fma(r * r, p, rest));
  const int exponent = static_cast<int>(k);
  return exponent > 1000 ? series * 0x1p+1000 * power_of_two(exponent - 1000)
                         : series * power_of_two(exponent);
}

}  // namespace shardwise
