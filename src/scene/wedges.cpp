#include "shardwise/scene/wedges.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scene/face_tree.hpp"
#include "scene/orientation.hpp"
#include "scene/scene_view.hpp"
#include "shardwise/numeric/trigonometry.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

constexpr double pi = 3.14159265358979323846;

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// The part of a segment that is left after clipping, as parameters; empty where first > last.
struct Piece {
  double first = 0, last = 1;

  /// Keeps where value0 + s (value1 - value0) >= least.
  void clip(double value0, double value1, double least) {
    if (value0 >= least && value1 >= least) return;
    if (value0 < least && value1 < least) {
      last = -1;
      return;
    }
    const double s = (least - value0) / (value1 - value0);
    if (value0 < least)
      first = std::max(first, s);
    else
      last = std::min(last, s);
  }
  bool empty() const { return !(first <= last); }
};

/// Answers whether segments lie on faces.
class FaceCover {
 public:
  explicit FaceCover(const SceneGeometry& geometry) : geometry_(geometry), tree_(geometry) {
    view_.diagonal = geometry.diagonal;
  }

  /// Whether each point of [a, b] is within offset_at of a face other than `own`.
  bool covers(Vec3f a, Vec3f b, std::int32_t own) {
    const float offset = std::max(view_.offset_at(a), view_.offset_at(b));
    const Vec3f low{std::min(a.x, b.x) - offset, std::min(a.y, b.y) - offset, std::min(a.z, b.z) - offset};
    const Vec3f high{std::max(a.x, b.x) + offset, std::max(a.y, b.y) + offset, std::max(a.z, b.z) + offset};
    pieces_.clear();
    tree_.visit(
        [&](Vec3f box_low, Vec3f box_high) {
          return box_low.x <= high.x && box_high.x >= low.x && box_low.y <= high.y && box_high.y >= low.y &&
                 box_low.z <= high.z && box_high.z >= low.z;
        },
        [&](std::uint32_t face) {
          if (static_cast<std::int32_t>(face) == own) return;
          const Piece piece = piece_near(face, to_double(a), to_double(b), offset);
          if (!piece.empty()) pieces_.push_back(piece);
        });
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece& x, const Piece& y) {
      return std::pair(x.first, x.last) < std::pair(y.first, y.last);
    });
    double reached = 0;
    for (const Piece& piece : pieces_) {
      if (piece.first > reached) return false;
      reached = std::max(reached, piece.last);
    }
    return !pieces_.empty() && reached >= 1;
  }

 private:
  /// The part of [a, b] within `offset` of the face's plane and of its inside in that plane. (Beyond a sharp
  /// corner that is a little more than its surroundings of that radius.)
  Piece piece_near(std::uint32_t face, Vec3d a, Vec3d b, double offset) const {
    Vec3d corner[3];
    for (std::size_t k = 0; k < 3; ++k)
      corner[k] = to_double(geometry_.vertices[at(geometry_.faces[face][k])]);
    const Vec3d normal = normalized(cross(corner[1] - corner[0], corner[2] - corner[0]));
    Piece piece;
    const auto clip = [&](Vec3d inward, Vec3d from) {
      piece.clip(dot(inward, a - from), dot(inward, b - from), -offset);
    };
    clip(normal, corner[0]);
    clip(-normal, corner[0]);
    for (int k = 0; k < 3 && !piece.empty(); ++k)
      clip(normalized(cross(normal, corner[(k + 1) % 3] - corner[k])), corner[k]);
    return piece;
  }

  const SceneGeometry& geometry_;
  FaceTree tree_;
  SceneView view_;
  std::vector<Piece> pieces_;
};

}  // namespace

Wedges classify_wedges(const SceneModel& scene, const WedgeOptions& options) {
  if (!(options.coplanar_tolerance >= 0 && options.coplanar_tolerance < pi)) {
    throw_usage(fmt::format("classify_wedges: coplanar_tolerance must be in [0, pi) radians (got {})",
                            options.coplanar_tolerance));
  }
  const SceneGeometry& geometry = scene.geometry();
  const EdgeTable& table = scene.edges();
  Wedges result;
  result.flipped.assign(geometry.faces.size(), 0);
  if (options.orient_closed) {
    Orientation orientation = orient_closed_components(table, geometry);
    result.flipped = std::move(orientation.flipped);
    result.closed_components = orientation.closed_components;
    result.oriented_components = orientation.oriented_components;
  }
  const auto outward = [&](std::int32_t face) {
    const Face& f = geometry.faces[at(face)];
    const Vec3d p0 = to_double(geometry.vertices[at(f[0])]);
    const Vec3d normal = normalized(
        cross(to_double(geometry.vertices[at(f[1])]) - p0, to_double(geometry.vertices[at(f[2])]) - p0));
    return result.flipped[at(face)] ? -normal : normal;
  };
  FaceCover cover(geometry);
  for (const EdgeRecord& edge : table.edges) {
    EdgeKind kind = EdgeKind::undefined;
    double exterior = 0;
    const bool defined =
        geometry.hittable[at(edge.face0)] && (edge.is_boundary || geometry.hittable[at(edge.face1)]);
    if (defined && edge.is_boundary) {
      exterior = 2 * pi;
      kind = cover.covers(geometry.vertices[at(edge.v0)], geometry.vertices[at(edge.v1)], edge.face0)
                 ? EdgeKind::boundary_on_face
                 : EdgeKind::free_boundary;
    } else if (defined &&
               edge.inconsistent == (result.flipped[at(edge.face0)] != result.flipped[at(edge.face1)])) {
      const Vec3d n0 = outward(edge.face0), n1 = outward(edge.face1);
      const double angle = arctan2(length(cross(n0, n1)), dot(n0, n1));
      const double side =
          dot(n0, to_double(geometry.vertices[at(edge.opp1)]) - to_double(geometry.vertices[at(edge.v0)]));
      if (angle <= options.coplanar_tolerance) {
        kind = EdgeKind::coplanar;
        exterior = side > 0 ? pi - angle : pi + angle;
      } else if (side > 0) {
        kind = EdgeKind::concave;
        exterior = pi - angle;
      } else {
        kind = EdgeKind::convex;  // side 0 is a sheet folded flat: nothing but outside around it
        exterior = pi + angle;
      }
    }
    const bool wedge = kind == EdgeKind::convex || kind == EdgeKind::free_boundary;
    result.kind.push_back(kind);
    result.exterior_angle.push_back(static_cast<float>(exterior));
    result.is_wedge.push_back(wedge);
    result.wedges += wedge;
    result.convex += kind == EdgeKind::convex;
    result.concave += kind == EdgeKind::concave;
    result.coplanar += kind == EdgeKind::coplanar;
    result.free_boundary += kind == EdgeKind::free_boundary;
    result.wall_feet += kind == EdgeKind::boundary_on_face;
    result.undefined += kind == EdgeKind::undefined;
  }
  return result;
}

std::int64_t count_near_coincident_vertices(const SceneModel& scene) {
  const SceneGeometry& geometry = scene.geometry();
  const EdgeTable& table = scene.edges();
  SceneView view;
  view.diagonal = geometry.diagonal;
  // Along x, in order; what is further than an offset in x is out of reach. Equal x are told apart by the
  // other coordinates, so a wall of many vertices stays cheap.
  struct Place {
    std::int64_t x, y, z;  // in steps of the largest offset
    std::int32_t vertex;
    auto key() const { return std::tie(x, y, z, vertex); }
  };
  const Vec3f far{geometry.max_coordinate, 0, 0};
  const double step = view.offset_at(far);
  std::vector<Place> places;
  if (!(step > 0)) return 0;
  for (std::size_t v = 0; v < table.canonical.size(); ++v) {
    const Vec3f p = geometry.vertices[v];
    if (table.canonical[v] != static_cast<std::int32_t>(v) || !is_finite(p)) continue;
    // A vertex of faces that are not hittable now may lie anywhere.
    if (max_abs(p) > geometry.max_coordinate) continue;
    const auto cell = [&](float c) { return static_cast<std::int64_t>(std::floor(c / step)); };
    places.push_back({cell(p.x), cell(p.y), cell(p.z), static_cast<std::int32_t>(v)});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.key() < b.key(); });
  const auto close = [&](const Place& a, const Place& b) {
    if (table.weld_group[at(a.vertex)] != table.weld_group[at(b.vertex)]) return false;
    const Vec3f p = geometry.vertices[at(a.vertex)], q = geometry.vertices[at(b.vertex)];
    const double reach = view.offset_at(p);
    const Vec3d apart = to_double(p) - to_double(q);
    return !(p == q) && dot(apart, apart) <= reach * reach;
  };
  std::int64_t count = 0;
  for (const Place& place : places) {
    bool found = false;
    for (std::int64_t dx = -1; dx <= 1 && !found; ++dx) {
      for (std::int64_t dy = -1; dy <= 1 && !found; ++dy) {
        const Place from{place.x + dx, place.y + dy, place.z - 1, -1};
        auto other = std::lower_bound(places.begin(), places.end(), from,
                                      [](const Place& a, const Place& b) { return a.key() < b.key(); });
        for (; other != places.end() && other->x == from.x && other->y == from.y && other->z <= place.z + 1;
             ++other)
          if (close(place, *other)) {
            found = true;
            break;
          }
      }
    }
    count += found;
  }
  return count;
}

}  // namespace shardwise
