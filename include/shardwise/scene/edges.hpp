#pragma once
// The edges of a scene: one record for each place where two corners of a face meet an equal pair of another.
//
// Edges are keyed by position, not by index: vertices that lie in the same place form a class, and faces meet
// where the classes of two corners are the same. Classes are fixed at build():
//   - static meshes together, by world value (-0 equals +0);
//   - a dynamic mesh alone, by its object positions;
//   - an instance alone, by its owner's positions (and the owner's faces that can be hit).
// Faces that cannot be hit (dropped ones, those of a NaN vertex) take no part. A class is named by its
// canonical vertex, the lowest global vertex index in it; only vertices of faces that take part belong to
// one.
//
// Order: by (v0, v1, face0, face1); the place in this order is global_edge_id. A scene's edges, and their
// ids, stay until the next build(); sync() moves the end points.

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// How vertices become classes.
enum class EdgeWeld {
  position,    ///< equal positions, see above
  mesh_index,  ///< each vertex is alone: faces meet where they share indices of one mesh
};

/// One pair of faces at an edge; a place where n >= 3 faces meet has n (n - 1) / 2 records, with one
/// geometry_id.
struct EdgeRecord {
  std::int32_t v0, v1;         ///< canonical end points, global vertex indices, v0 < v1
  std::int32_t face0, face1;   ///< global_prim_id, face0 < face1; face1 = -1 on a boundary
  std::int32_t opp0, opp1;     ///< canonical vertex of each face that is not on the edge; -1 without a face
  std::int32_t shape_id;       ///< of face0
  std::int32_t local_edge_id;  ///< rank among the records of this shape_id
  std::int32_t global_edge_id;
  std::int32_t geometry_id;  ///< global_edge_id of the first record with these end points
  bool is_boundary;          ///< one face alone
  bool inconsistent;         ///< both faces run along the edge in the same direction: their windings disagree
  bool non_manifold;         ///< one of three or more faces' pairs

  friend bool operator==(const EdgeRecord&, const EdgeRecord&) = default;
};

/// The edges of a scene. A mesh with edges_enabled = false hides what its own faces have among themselves;
/// its faces still join those of other meshes.
struct EdgeTable {
  std::vector<EdgeRecord> edges;  ///< [E]
  /// What edges_enabled = false hides, in the same order: no ids (-1), never found, but part of the topology.
  std::vector<EdgeRecord> hidden;
  std::vector<std::int32_t>
      canonical;  ///< [V] canonical vertex of each vertex; -1: on no face that takes part
  /// [V] Vertices are welded inside a group only: 0 for static meshes, else 1 + shape_id.
  std::vector<std::int32_t> weld_group;
  std::int64_t boundary_edges = 0;
  std::int64_t non_manifold_edges = 0;  ///< places, not records
  std::int64_t inconsistent_edges = 0;  ///< records
};

/// A value that is made on first demand, by const calls that may run together. A copy shares the value.
template <class T>
class LazyShared {
 public:
  LazyShared() = default;
  LazyShared(const LazyShared& other) : value_(other.get()) {}
  LazyShared& operator=(const LazyShared& other) {
    if (this != &other) set(other.get());
    return *this;
  }

  std::shared_ptr<const T> get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }
  void set(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }
  /// The value; `make` is called, once, where there is none. What it throws leaves none.
  template <class Make>
  const T& get_or_make(const Make& make) const {
    const std::lock_guard lock(mutex_);
    if (!value_) value_ = std::make_shared<const T>(make());
    return *value_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const T> value_;
};

}  // namespace shardwise
