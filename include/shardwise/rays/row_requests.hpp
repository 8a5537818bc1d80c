#pragma once
// What a call on rays asks for beside its rows.

#include <cstdint>
#include <vector>

namespace shardwise {

/// Which fields of an intersection are wanted beside t.
enum class IntersectFields : std::uint32_t {
  none = 0,       ///< t alone: the reduced record
  geometric = 1,  ///< point, face normal, barycentric weights, ids
  shading = 2,    ///< shading normal
  uv = 4,         ///< texture coordinates
  all = 7,        ///< the full record, 72 bytes a row
};
constexpr bool has(IntersectFields set, IntersectFields field) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(field)) != 0;
}
constexpr IntersectFields operator|(IntersectFields a, IntersectFields b) {
  return static_cast<IntersectFields>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

/// Which fields of a chain of reflections are wanted beside valid, t and prim_ids.
enum class ReflectionFields : std::uint32_t {
  none = 0,           ///< the reduced record, 9 bytes a slot
  image_sources = 1,  ///< the source mirrored through planes 0 to b: with it the full record, 21 bytes a slot
  bounce_count = 2,   ///< recorded bounces of the row
  hits = 4,           ///< hit points and face normals, turned against the incoming ray
  shapes = 8,         ///< shape_id and local_prim_id of each hit
  trailing = 16,      ///< the segment after the last recorded bounce
  full = 1,
  all = 31,
};
constexpr bool has(ReflectionFields set, ReflectionFields field) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(field)) != 0;
}
constexpr ReflectionFields operator|(ReflectionFields a, ReflectionFields b) {
  return static_cast<ReflectionFields>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

/// Which fields of each crossing of a segment are wanted beside valid, t and global_prim_id.
enum class PenetrationFields : std::uint32_t {
  none = 0,
  position = 1,
  geometric_normal = 2,
  shading_normal = 4,
  all = 7,  ///< 45 bytes a slot
};
constexpr bool has(PenetrationFields set, PenetrationFields field) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(field)) != 0;
}
constexpr PenetrationFields operator|(PenetrationFields a, PenetrationFields b) {
  return static_cast<PenetrationFields>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

/// Where visible_edge looks along an edge, as fractions of [t_min, t_max]: 1 to 16 finite numbers.
inline std::vector<float> default_edge_fractions() {
  return {0.0f, 0.25f, 0.5f, 0.75f, 1.0f};
}

}  // namespace shardwise
