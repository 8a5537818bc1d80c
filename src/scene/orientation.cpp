#include "scene/orientation.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace shardwise {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// Disjoint sets of faces that know whether a face is wound like its set's root.
class FaceSets {
 public:
  explicit FaceSets(std::size_t faces) : parent_(faces), against_(faces, 0), orientable_(faces, 1) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  struct Root {
    std::int32_t face;
    std::uint8_t against;  // 1: wound against the root
  };
  Root find(std::int32_t face) {
    std::int32_t root = face;
    std::uint8_t total = 0;
    for (; parent_[at(root)] != root; root = parent_[at(root)])
      total = static_cast<std::uint8_t>(total ^ against_[at(root)]);
    const Root result{root, total};
    // The path becomes flat.
    while (parent_[at(face)] != root) {
      const std::int32_t next = parent_[at(face)];
      const std::uint8_t step = against_[at(face)];
      parent_[at(face)] = root;
      against_[at(face)] = total;
      total = static_cast<std::uint8_t>(total ^ step);
      face = next;
    }
    return result;
  }
  /// `against`: the windings of the two disagree.
  void join(std::int32_t a, std::int32_t b, bool against) {
    const Root ra = find(a), rb = find(b);
    const auto flip = static_cast<std::uint8_t>(ra.against ^ rb.against ^ (against ? 1 : 0));
    if (ra.face == rb.face) {
      if (flip) orientable_[at(ra.face)] = 0;
      return;
    }
    const std::int32_t low = std::min(ra.face, rb.face), high = std::max(ra.face, rb.face);
    parent_[at(high)] = low;
    against_[at(high)] = flip;
    orientable_[at(low)] = orientable_[at(low)] && orientable_[at(high)];
  }
  bool orientable(std::int32_t root) const { return orientable_[at(root)] != 0; }

 private:
  std::vector<std::int32_t> parent_;
  std::vector<std::uint8_t> against_, orientable_;
};

/// A face at an edge of three or more.
struct Meeting {
  std::int32_t v0, v1, component, face;
  auto key() const { return std::tie(v0, v1, component, face); }
};

}  // namespace

Orientation orient_closed_components(const EdgeTable& table, const SceneGeometry& geometry) {
  const std::size_t faces = geometry.faces.size();
  FaceSets sets(faces);
  const auto for_all_records = [&](const auto& function) {
    for (const EdgeRecord& record : table.edges) function(record);
    for (const EdgeRecord& record : table.hidden) function(record);
  };
  for_all_records([&](const EdgeRecord& record) {
    if (!record.is_boundary && !record.non_manifold)
      sets.join(record.face0, record.face1, record.inconsistent);
  });

  std::vector<std::uint8_t> open(faces, 0);  // by root
  std::vector<Meeting> meetings;
  for_all_records([&](const EdgeRecord& record) {
    if (record.is_boundary) open[at(sets.find(record.face0).face)] = 1;
    if (!record.non_manifold) return;
    for (const std::int32_t face : {record.face0, record.face1})
      meetings.push_back({record.v0, record.v1, sets.find(face).face, face});
  });
  std::sort(meetings.begin(), meetings.end(),
            [](const Meeting& a, const Meeting& b) { return a.key() < b.key(); });
  meetings.erase(std::unique(meetings.begin(), meetings.end(),
                             [](const Meeting& a, const Meeting& b) { return a.key() == b.key(); }),
                 meetings.end());
  for (std::size_t begin = 0; begin < meetings.size();) {
    std::size_t end = begin + 1;
    while (end < meetings.size() && meetings[end].v0 == meetings[begin].v0 &&
           meetings[end].v1 == meetings[begin].v1 && meetings[end].component == meetings[begin].component)
      ++end;
    if ((end - begin) % 2 != 0) open[at(meetings[begin].component)] = 1;
    begin = end;
  }

  // Six times the volume, from a point of the component, so that large coordinates do not cancel.
  std::vector<double> volume(faces, 0);
  std::vector<std::uint8_t> takes_part(faces, 0);
  const auto corner = [&](std::size_t face, std::size_t k) {
    return to_double(geometry.vertices[at(geometry.faces[face][k])]);
  };
  for_all_records([&](const EdgeRecord& record) {
    takes_part[at(record.face0)] = 1;
    if (record.face1 >= 0) takes_part[at(record.face1)] = 1;
  });
  for (std::size_t f = 0; f < faces; ++f) {
    if (!takes_part[f]) continue;
    const FaceSets::Root root = sets.find(static_cast<std::int32_t>(f));
    if (open[at(root.face)] || !sets.orientable(root.face)) continue;
    const Vec3d origin = corner(at(root.face), 0);
    const double six = dot(corner(f, 0) - origin, cross(corner(f, 1) - origin, corner(f, 2) - origin));
    volume[at(root.face)] += root.against ? -six : six;
  }

  Orientation result;
  result.flipped.assign(faces, 0);
  std::vector<std::uint8_t> changed(faces, 0);  // by root
  for (std::size_t f = 0; f < faces; ++f) {
    if (!takes_part[f]) continue;
    const FaceSets::Root root = sets.find(static_cast<std::int32_t>(f));
    const double enclosed = volume[at(root.face)];
    if (!(enclosed < 0 || enclosed > 0)) continue;  // open, flat, or not finite
    if (at(root.face) == f) ++result.closed_components;
    result.flipped[f] = static_cast<std::uint8_t>(root.against ^ (enclosed < 0 ? 1 : 0));
    if (result.flipped[f] && !changed[at(root.face)]) {
      changed[at(root.face)] = 1;
      ++result.oriented_components;
    }
  }
  return result;
}

}  // namespace shardwise
