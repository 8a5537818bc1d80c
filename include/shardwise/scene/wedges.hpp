#pragma once
// Which edges of a scene diffract, and what lies inside its solids.
//
// Connected faces that enclose a volume (every edge of the component has an even number of its faces, and the
// windings can be made to agree) are taken as wound outward, however they are wound in the file: many files
// have their buildings inside out. Faces, normals and ids stay as given.

#include <cstdint>
#include <memory>
#include <vector>

#include "shardwise/numeric/vec3.hpp"
#include "shardwise/scene/scene_model.hpp"

namespace shardwise {

enum class EdgeKind : std::uint8_t {
  convex,            ///< the material fills less than a half-space: a wedge
  concave,           ///< an inner corner
  coplanar,          ///< both faces in one plane, within the tolerance
  free_boundary,     ///< one face alone: a wedge, the edge of a half-plane
  boundary_on_face,  ///< one face alone, but the edge lies on other faces (the foot of a wall): no wedge
  undefined,         ///< windings that disagree, or a face without a normal: no wedge
};

struct WedgeOptions {
  double coplanar_tolerance = 1e-3;  ///< radians between normals up to which two faces are one plane
  bool orient_closed = true;         ///< false: windings count as they are given
};

struct Wedges {
  std::vector<EdgeKind> kind;  ///< [E]
  /// [E] Angle outside the material, radians: 2 pi on a boundary, pi + the angle between the outward normals
  /// on a convex edge, pi - it on a concave one; 0 where undefined. n of the uniform theory of diffraction is
  /// this / pi (Kouyoumjian and Pathak, Proc. IEEE 62(11), 1974).
  std::vector<float> exterior_angle;
  std::vector<std::uint8_t> is_wedge;  ///< [E] convex or free_boundary
  std::vector<std::uint8_t> flipped;   ///< [F] 1: outward is against the winding
  std::int64_t wedges = 0;             ///< convex + free_boundary
  std::int64_t convex = 0, concave = 0, coplanar = 0, free_boundary = 0, undefined = 0;
  std::int64_t wall_feet = 0;            ///< boundary_on_face
  std::int64_t closed_components = 0;    ///< that enclose a volume
  std::int64_t oriented_components = 0;  ///< of them, those with a flipped face
};

/// Classifies every edge of a built scene, as its vertices are now. A boundary edge lies on other faces where
/// each of its points is within SceneView::offset_at (1e-8 x diagonal + 2e-6 x |p|_inf) of one. Throws a
/// state error where the scene is not built or has pending updates, a usage error for a tolerance that is not
/// in [0, pi).
Wedges classify_wedges(const SceneModel& scene, const WedgeOptions& options = {});

/// Places where vertices that edges could join lie apart, yet within offset_at of each other: probably one
/// vertex in the mind of who made the scene.
std::int64_t count_near_coincident_vertices(const SceneModel& scene);

/// Answers whether points lie inside a solid: straight up, a point inside meets an odd number of faces. A
/// building without a floor counts as a solid. The tree is made once, from the scene as it is now; the scene
/// need not outlive it. Calls may run together.
class InsideTest {
 public:
  /// Throws a state error where the scene is not built or has pending updates.
  explicit InsideTest(const SceneModel& scene);
  ~InsideTest();
  InsideTest(InsideTest&&) noexcept;
  InsideTest& operator=(InsideTest&&) noexcept;

  /// False for a point that is not finite.
  bool inside(Vec3d point) const;

 private:
  struct Faces;
  std::unique_ptr<const Faces> faces_;
};

}  // namespace shardwise
