#pragma once
// Small scenes for tests: triangles, one material per face, and the view that kernels read.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "radio/surface_material.hpp"
#include "scene/scene_view.hpp"

namespace shardwise::test {

/// The physical numbers of a material; sigma = infinity is a perfect conductor.
struct MaterialNumbers {
  double eta_r = 1, sigma = 0, mu_r = 1, thickness = 0.1, gain = 1;
};

class TestScene {
 public:
  int add_material(MaterialNumbers numbers) {
    numbers_.push_back(numbers);
    return static_cast<int>(numbers_.size()) - 1;
  }

  void add_triangle(Vec3d a, Vec3d b, Vec3d c, int material) {
    const auto prim = static_cast<std::uint32_t>(triangles_.size());
    triangles_.push_back({to_float(a), prim, to_float(b), 0, to_float(c), 0});
    record_of_prim_.push_back(prim);
    face_material_.push_back(material);
  }

  /// The parallelogram corner, corner + u, corner + u + v, corner + v as two triangles.
  void add_quad(Vec3d corner, Vec3d u, Vec3d v, int material) {
    add_triangle(corner, corner + u, corner + u + v, material);
    add_triangle(corner, corner + u + v, corner + v, material);
  }

  /// An axis-aligned box, or one turned by `turn` radians about the vertical axis through its centre.
  void add_box(Vec3d low, Vec3d high, int material, double turn = 0) {
    const Vec3d centre = 0.5 * (low + high), size = high - low;
    const Vec3d x{size.x * std::cos(turn), size.x * std::sin(turn), 0};
    const Vec3d y{-size.y * std::sin(turn), size.y * std::cos(turn), 0}, z{0, 0, size.z};
    const Vec3d corner = centre - 0.5 * (x + y + z);
    add_quad(corner, x, y, material);
    add_quad(corner + z, x, y, material);
    add_quad(corner, x, z, material);
    add_quad(corner + y, x, z, material);
    add_quad(corner, y, z, material);
    add_quad(corner + x, y, z, material);
  }

  const std::vector<BvhTriangle>& triangles() const { return triangles_; }
  const std::vector<MaterialNumbers>& material_numbers() const { return numbers_; }
  int material_of(std::size_t prim) const { return face_material_.at(prim); }
  const MaterialNumbers& numbers(std::uint32_t prim) const { return numbers_.at(face_material_.at(prim)); }

  std::vector<SurfaceMaterial> materials(double frequency) const {
    std::vector<SurfaceMaterial> table;
    for (const MaterialNumbers& n : numbers_)
      table.push_back(make_surface_material(n.eta_r, n.sigma, n.mu_r, n.thickness, n.gain, frequency));
    return table;
  }

  /// Points into this object. A scene without triangles has a diagonal of 1 m.
  SceneView view() const {
    SceneView view;
    view.triangles = triangles_.data();
    view.record_of_prim = record_of_prim_.data();
    view.face_material = face_material_.data();
    view.triangle_count = view.face_count = static_cast<std::uint32_t>(triangles_.size());
    view.diagonal = 1;
    if (triangles_.empty()) return view;
    Vec3d low = to_double(triangles_[0].v0), high = low;
    for (const BvhTriangle& triangle : triangles_)
      for (const Vec3f corner : {triangle.v0, triangle.v1, triangle.v2})
        for (int axis = 0; axis < 3; ++axis) {
          const double c = corner[axis];
          if (c < low[axis]) low.set(axis, c);
          if (c > high[axis]) high.set(axis, c);
        }
    view.max_coordinate = static_cast<float>(std::max(max_abs(low), max_abs(high)));
    view.diagonal = static_cast<float>(length(high - low));
    return view;
  }

 private:
  std::vector<BvhTriangle> triangles_;
  std::vector<std::uint32_t> record_of_prim_;
  std::vector<std::int32_t> face_material_;
  std::vector<MaterialNumbers> numbers_;
};

}  // namespace shardwise::test
