#include "place.hpp"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise::program {
namespace {

/// A map over `ground+h` is refused where the ground's z ranges over more.
constexpr double flat_m = 0.5;

double to_millimetre(double z) {
  return std::round(z * 1000) / 1000;
}

}  // namespace

Height parse_height(const std::string& option, const std::string& text) {
  for (const auto& [word, above] :
       {std::pair{std::string("roof"), Height::Above::roof}, {"ground", Height::Above::ground}}) {
    if (!text.starts_with(word)) continue;
    const std::string rest = text.substr(word.size());
    if (rest.empty()) return {above, 0};
    if (rest.size() < 2 || (rest[0] != '+' && rest[0] != '-')) {
      throw_usage(fmt::format("{}: '{}' is no height above the {}; write {}+1.5", option, text, word, word));
    }
    const double metres = parse_number(rest.substr(1), option);
    return {above, rest[0] == '-' ? -metres : metres};
  }
  return {Height::Above::zero, parse_number(text, option)};
}

Site parse_site(const std::string& option, const std::string& text) {
  const std::size_t last = text.rfind(',');
  const bool relative = text.find("roof") != std::string::npos || text.find("ground") != std::string::npos;
  Site site;
  site.text = text;
  if (!relative || last == std::string::npos) {
    const auto point = parse_point(text, option);
    site.x = point[0], site.y = point[1], site.z.metres = point[2];
    return site;
  }
  const auto place = parse_tuple(text.substr(0, last), option, {"x", "y"});
  site.x = place[0], site.y = place[1];
  site.z = parse_height(option, text.substr(last + 1));
  return site;
}

Vec3d place_site(const std::string& option, const Site& site, const Surfaces& surfaces,
                 const Vec3d& origin_shift) {
  const double x = site.x - origin_shift.x, y = site.y - origin_shift.y;
  if (site.z.above == Height::Above::zero) return {x, y, site.z.metres - origin_shift.z};
  const bool roof = site.z.above == Height::Above::roof;
  const auto surface = roof ? surfaces.roof(x, y) : surfaces.ground(x, y);
  if (!surface) {
    const Bounds& bounds = surfaces.bounds();
    const Vec3d low = to_double(bounds.low) + origin_shift, high = to_double(bounds.high) + origin_shift;
    throw_usage(fmt::format(
        "{}: there is no {} at ({:.10g}, {:.10g}) ('{}'), the scene goes from ({:.10g}, {:.10g}) to "
        "({:.10g}, {:.10g}); give z in metres",
        option, roof ? "roof" : "ground", site.x, site.y, site.text, low.x, low.y, high.x, high.y));
  }
  return {x, y, to_millimetre(surface->z) + site.z.metres};
}

double place_map(const std::string& option, const Height& height, const Area& area, const Surfaces& surfaces,
                 const Vec3d& origin_shift) {
  if (height.above == Height::Above::zero) return height.metres - origin_shift.z;
  if (height.above == Height::Above::roof) {
    throw_usage(fmt::format(
        "{}: a map above roofs is not in this version (each roof has its own z); give z in metres, "
        "or ground+1.5",
        option));
  }
  const auto ground = surfaces.ground_range(area);
  if (!ground) {
    throw_usage(fmt::format(
        "{}: there is no ground under the area ({:.10g}, {:.10g}) to ({:.10g}, {:.10g}); give z in metres",
        option, area.min0 + origin_shift.x, area.min1 + origin_shift.y, area.max0 + origin_shift.x,
        area.max1 + origin_shift.y));
  }
  if (ground->high - ground->low > flat_m) {
    throw_usage(fmt::format(
        "{}: the ground is not flat to {:g} m, it goes from z = {:.2f} m to z = {:.2f} m, and maps "
        "that follow it are not in this version; give z in metres, or a smaller --area",
        option, flat_m, ground->low + origin_shift.z, ground->high + origin_shift.z));
  }
  return to_millimetre(ground->high) + height.metres;
}

}  // namespace shardwise::program
