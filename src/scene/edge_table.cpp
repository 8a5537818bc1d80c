#include "scene/edge_table.hpp"

#include <fmt/format.h>
#include <tbb/parallel_sort.h>

#include <bit>
#include <limits>
#include <tuple>

#include "shardwise/numeric/bits.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

/// The bits of a coordinate, one value for both zeros.
std::uint32_t position_bits(float x) {
  return bit_cast<std::uint32_t>(x == 0.0f ? 0.0f : x);
}

/// Finds the first vertex with the same group and position: open addressing, at most half full.
class PositionIndex {
 public:
  explicit PositionIndex(std::size_t vertices) : slots_(std::bit_ceil(2 * vertices + 2), empty) {}

  /// The vertex that was first inserted with this key; `vertex` itself where it is the first.
  std::int32_t insert(std::int32_t vertex, Vec3f p, std::int32_t group) {
    const Key key{position_bits(p.x), position_bits(p.y), position_bits(p.z), group};
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = hash(key) & mask;; i = (i + 1) & mask) {
      if (slots_[i] == empty) {
        slots_[i] = static_cast<std::int32_t>(entries_.size());
        entries_.push_back({key, vertex});
        return vertex;
      }
      const Entry& entry = entries_[at(slots_[i])];
      if (entry.key == key) return entry.vertex;
    }
  }

 private:
  static constexpr std::int32_t empty = -1;
  struct Key {
    std::uint32_t x, y, z;
    std::int32_t group;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::int32_t vertex;
  };
  /// Multiply and shift, a word at a time; the constant is the golden ratio's, as in Fibonacci hashing
  /// (Knuth, TAOCP 3, 6.4).
  static std::size_t hash(const Key& key) {
    std::uint64_t h = 0;
    for (const std::uint32_t word : {key.x, key.y, key.z, static_cast<std::uint32_t>(key.group)}) {
      h = (h ^ word) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
    return static_cast<std::size_t>(h ^ (h >> 32));
  }

  std::vector<std::int32_t> slots_;
  std::vector<Entry> entries_;
};

/// One side of a face.
struct HalfEdge {
  std::int32_t low, high;  // canonical vertices
  std::int32_t face;       // global_prim_id
  std::int32_t opposite;   // canonical vertex
  bool upward;             // the face runs from low to high
  bool enabled;

  auto key() const { return std::tie(low, high, face); }
};

void weld_vertices(EdgeTable& table, const SceneGeometry& geometry, std::span<const EdgeShape> shapes,
                   EdgeWeld weld) {
  const std::size_t vertices = geometry.vertices.size();
  table.canonical.assign(vertices, -1);
  table.weld_group.resize(vertices);
  std::vector<std::uint8_t> used(vertices, 0);
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    for (std::int32_t v = geometry.vertex_offset[s]; v < geometry.vertex_offset[s + 1]; ++v)
      table.weld_group[at(v)] = shapes[s].weld_group;
    const std::int32_t first = geometry.face_offset[s];
    for (std::size_t f = 0; f < shapes[s].hittable.size(); ++f) {
      if (!shapes[s].hittable[f]) continue;
      for (const std::int32_t v : geometry.faces[at(first) + f]) used[at(v)] = 1;
    }
  }
  if (weld == EdgeWeld::mesh_index) {
    for (std::size_t v = 0; v < vertices; ++v)
      if (used[v]) table.canonical[v] = static_cast<std::int32_t>(v);
    return;
  }
  PositionIndex index(vertices);
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const std::int32_t first = geometry.vertex_offset[s];
    for (std::int32_t v = first; v < geometry.vertex_offset[s + 1]; ++v) {
      if (used[at(v)])
        table.canonical[at(v)] = index.insert(v, shapes[s].positions[at(v - first)], shapes[s].weld_group);
    }
  }
}

std::vector<HalfEdge> half_edges_of(const EdgeTable& table, const SceneGeometry& geometry,
                                    std::span<const EdgeShape> shapes) {
  std::vector<HalfEdge> halves;
  halves.reserve(3 * geometry.faces.size());
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const std::int32_t first = geometry.face_offset[s];
    for (std::int32_t f = first; f < geometry.face_offset[s + 1]; ++f) {
      if (!shapes[s].hittable[at(f - first)]) continue;
      std::int32_t corner[3];
      for (std::size_t k = 0; k < 3; ++k) corner[k] = table.canonical[at(geometry.faces[at(f)][k])];
      for (int k = 0; k < 3; ++k) {
        const std::int32_t i = corner[k], j = corner[(k + 1) % 3];
        if (i == j) continue;
        halves.push_back(
            {std::min(i, j), std::max(i, j), f, corner[(k + 2) % 3], i < j, shapes[s].edges_enabled});
      }
    }
  }
  tbb::parallel_sort(halves.begin(), halves.end(),
                     [](const HalfEdge& a, const HalfEdge& b) { return a.key() < b.key(); });
  return halves;
}

/// The records of the faces halves[begin, end), which share their end points.
void add_records(EdgeTable& table, const SceneGeometry& geometry, const std::vector<HalfEdge>& halves,
                 std::size_t begin, std::size_t end) {
  const std::size_t faces = end - begin;
  if (table.edges.size() + faces * (faces - 1) / 2 >=
      static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw_usage(fmt::format(
        "edges: more than 2^31 records of pairs of faces; {} faces meet at the edge of vertices {} "
        "and {}: split the mesh, or remove copies of its faces",
        faces, halves[begin].low, halves[begin].high));
  }
  const std::size_t first = table.edges.size();
  const auto add = [&](const HalfEdge& a, const HalfEdge* b) {
    const bool hidden = !a.enabled && !(b && b->enabled);
    EdgeRecord record{};
    record.v0 = a.low;
    record.v1 = a.high;
    record.face0 = a.face;
    record.face1 = b ? b->face : -1;
    record.opp0 = a.opposite;
    record.opp1 = b ? b->opposite : -1;
    record.shape_id = geometry.shape_id[at(a.face)];
    record.local_edge_id = -1;
    record.global_edge_id = hidden ? -1 : static_cast<std::int32_t>(table.edges.size());
    record.geometry_id = hidden ? -1 : static_cast<std::int32_t>(first);
    record.is_boundary = b == nullptr;
    record.inconsistent = b && a.upward == b->upward;
    record.non_manifold = faces > 2;
    (hidden ? table.hidden : table.edges).push_back(record);
  };
  if (faces == 1) add(halves[begin], nullptr);
  for (std::size_t i = begin; i < end; ++i)
    for (std::size_t j = i + 1; j < end; ++j) add(halves[i], &halves[j]);
  if (faces > 2 && table.edges.size() > first) ++table.non_manifold_edges;
}

bool same_place(Vec3f a, Vec3f b) {
  return a.x == b.x && a.y == b.y && a.z == b.z;
}

}  // namespace

EdgeTable build_edge_table(const SceneGeometry& geometry, std::span<const EdgeShape> shapes, EdgeWeld weld) {
  EdgeTable table;
  weld_vertices(table, geometry, shapes, weld);
  const std::vector<HalfEdge> halves = half_edges_of(table, geometry, shapes);
  table.edges.reserve(halves.size() / 2 + 16);
  for (std::size_t begin = 0; begin < halves.size();) {
    std::size_t end = begin + 1;
    while (end < halves.size() && halves[end].low == halves[begin].low &&
           halves[end].high == halves[begin].high)
      ++end;
    add_records(table, geometry, halves, begin, end);
    begin = end;
  }
  std::vector<std::int32_t> next(shapes.size(), 0);
  for (EdgeRecord& record : table.edges) {
    record.local_edge_id = next[at(record.shape_id)]++;
    table.boundary_edges += record.is_boundary;
    table.inconsistent_edges += record.inconsistent;
  }
  return table;
}

std::int64_t count_drifted_classes(const EdgeTable& table, std::span<const Vec3f> vertices) {
  std::vector<std::uint8_t> drifted(vertices.size(), 0);
  std::int64_t count = 0;
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    const std::int32_t canonical = table.canonical[v];
    if (canonical < 0 || at(canonical) == v || drifted[at(canonical)]) continue;
    if (same_place(vertices[v], vertices[at(canonical)])) continue;
    drifted[at(canonical)] = 1;
    ++count;
  }
  return count;
}

}  // namespace shardwise
