#pragma once
// The scene's surfaces as plain questions on the host: what lies over and under a point, and what is in
// between two. For heights, the report's counts of cells, and warnings; maps are traced by the devices.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shardwise/scene/scene_model.hpp"

namespace shardwise::program {

/// A rectangle of the plane z = 0, metres.
struct Area {
  double min0, min1, max0, max1;
};

class Surfaces {
 public:
  struct Surface {
    double z;         ///< where a vertical line meets it
    double distance;  ///< from the point asked about
    std::string shape;
  };
  struct Range {
    double low, high;
  };

  /// Builds a tree of its own over the scene's world triangles; the model must outlive it.
  explicit Surfaces(const SceneModel& model);
  ~Surfaces();

  const Bounds& bounds() const { return model_.geometry().bounds; }
  /// The first surface straight up or down from a point, within `limit` metres.
  std::optional<Surface> above(const Vec3d& point, double limit = 1e30) const;
  std::optional<Surface> below(const Vec3d& point, double limit = 1e30) const;
  /// The highest and the lowest surface on the vertical line through (x, y); none: nothing is there.
  std::optional<Surface> roof(double x, double y) const;
  std::optional<Surface> ground(double x, double y) const;
  /// Whether nothing is above a point.
  bool is_open(const Vec3d& point) const;
  /// Whether a surface lies between two points.
  bool is_blocked(const Vec3d& from, const Vec3d& to) const;
  /// The range of the ground's z over an area: the lowest surface at the middles of 256 x 256 equal parts.
  /// None: no part has one.
  std::optional<Range> ground_range(const Area& area) const;

 private:
  struct Tree;
  std::optional<Surface> straight(const Vec3d& point, float direction, double limit) const;
  const SceneModel& model_;
  std::unique_ptr<Tree> tree_;
};

}  // namespace shardwise::program
