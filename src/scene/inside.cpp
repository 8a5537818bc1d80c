#include <utility>

#include "scene/face_tree.hpp"
#include "shardwise/scene/wedges.hpp"

namespace shardwise {
namespace {

/// Whether the side from a to b crosses the line through (x, y) towards +x, seen from above. End points enter
/// in an order that does not depend on the face, so two faces that share a side agree to the last bit and a
/// point on it belongs to one of them.
bool crosses(Vec3d a, Vec3d b, double x, double y) {
  if ((a.y > y) == (b.y > y)) return false;
  if (std::pair(b.y, b.x) < std::pair(a.y, a.x)) std::swap(a, b);
  return x < a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x);
}

}  // namespace

struct InsideTest::Faces {
  explicit Faces(const SceneGeometry& geometry)
      : tree(geometry), vertices(geometry.vertices), faces(geometry.faces) {}
  FaceTree tree;
  std::vector<Vec3f> vertices;
  std::vector<Face> faces;
};

InsideTest::InsideTest(const SceneModel& scene) : faces_(std::make_unique<Faces>(scene.geometry())) {}
InsideTest::~InsideTest() = default;
InsideTest::InsideTest(InsideTest&&) noexcept = default;
InsideTest& InsideTest::operator=(InsideTest&&) noexcept = default;

bool InsideTest::inside(Vec3d point) const {
  if (!is_finite(point)) return false;
  bool odd = false;
  faces_->tree.visit(
      [&](Vec3f low, Vec3f high) {
        return low.x <= point.x && high.x >= point.x && low.y <= point.y && high.y >= point.y &&
               high.z >= point.z;
      },
      [&](std::uint32_t face) {
        Vec3d corner[3];
        for (std::size_t k = 0; k < 3; ++k)
          corner[k] = to_double(faces_->vertices[static_cast<std::size_t>(faces_->faces[face][k])]);
        bool over = false;
        for (int k = 0; k < 3; ++k) over ^= crosses(corner[k], corner[(k + 1) % 3], point.x, point.y);
        if (!over) return;
        const Vec3d normal = cross(corner[1] - corner[0], corner[2] - corner[0]);
        if (normal.z == 0) return;  // upright
        const Vec3d to = point - corner[0];
        const double z = corner[0].z - (to.x * normal.x + to.y * normal.y) / normal.z;
        odd ^= z > point.z;
      });
  return odd;
}

}  // namespace shardwise
