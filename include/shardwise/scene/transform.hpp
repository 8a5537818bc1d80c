#pragma once
// Affine transforms in double precision. A mesh stays in object space in float; its world vertices are
// computed in double and rounded once.

#include <array>

#include "shardwise/numeric/vec3.hpp"

namespace shardwise {

/// A 4 x 4 affine matrix, row-major, column-vector convention: world = m * (x, y, z, 1). The last row is (0,
/// 0, 0, 1) (the scene checks it).
struct Transform {
  std::array<double, 16> m{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};

  double operator()(int row, int column) const { return m[static_cast<std::size_t>(4 * row + column)]; }
  double& operator()(int row, int column) { return m[static_cast<std::size_t>(4 * row + column)]; }

  Vec3d apply(Vec3d p) const {
    return {m[0] * p.x + m[1] * p.y + m[2] * p.z + m[3], m[4] * p.x + m[5] * p.y + m[6] * p.z + m[7],
            m[8] * p.x + m[9] * p.y + m[10] * p.z + m[11]};
  }
  bool is_identity() const { return m == Transform{}.m; }

  static Transform translation(Vec3d offset) {
    Transform result;
    result.m[3] = offset.x;
    result.m[7] = offset.y;
    result.m[11] = offset.z;
    return result;
  }
  static Transform scaling(Vec3d factors) {
    Transform result;
    result.m[0] = factors.x;
    result.m[5] = factors.y;
    result.m[10] = factors.z;
    return result;
  }

  /// a * b: first b, then a.
  friend Transform operator*(const Transform& a, const Transform& b) {
    Transform result;
    for (int row = 0; row < 4; ++row) {
      for (int column = 0; column < 4; ++column) {
        double sum = 0;
        for (int k = 0; k < 4; ++k) sum += a(row, k) * b(k, column);
        result(row, column) = sum;
      }
    }
    return result;
  }
  friend bool operator==(const Transform&, const Transform&) = default;
};

}  // namespace shardwise
