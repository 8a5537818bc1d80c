#pragma once
// Conditions on the faces of a Cartesian grid, and the ghost values that stand for them.
//
// The wall passes through the face between the first owned cell and the first ghost. Layer k = 1..h counts
// ghosts outward; its mirror image lies (2k - 1) spacings away, so that
//
//     face value         (u_ghost + u_mirror) / 2
//     normal derivative  (u_ghost - u_mirror) / ((2k - 1) spacing)      outward
//
// and every condition is u_ghost = multiplier(k) u_mirror + offset(k).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardwise {

enum class BoundaryKind : std::uint8_t {
  periodic,
  dirichlet,      ///< u = value
  neumann,        ///< du/dn = value, outward
  robin,          ///< a u + b du/dn = value
  conormal_flux,  ///< kappa du/dn = value: the flux of a Diffusion; needs no coefficient at the wall
  interface,      ///< a cut between blocks: the ghosts are a neighbour's cells
};
const char* to_string(BoundaryKind kind) noexcept;

/// The condition on one face. The value is a number, or one number a cell of the face (`with_values`).
struct Boundary {
  BoundaryKind kind = BoundaryKind::dirichlet;
  double a = 1, b = 0;  ///< of robin; (1, 0) and (0, 1) for dirichlet and neumann
  double value = 0;
  /// One value a cell of the face of the *global* grid, the dimensions of the face ascending, the first
  /// fastest; null: `value` everywhere.
  std::shared_ptr<const std::vector<double>> values;

  static Boundary periodic();
  static Boundary dirichlet(double value = 0);
  static Boundary neumann(double flux = 0);
  /// a u + b du/dn = f. Constructed as dirichlet(f / a) where b is 0 and as neumann(f / b) where a is 0.
  /// Throws bad_boundary where both are 0 or anything is not finite.
  static Boundary robin(double a, double b, double f);
  static Boundary conormal_flux(double flux = 0);
  static Boundary interface();
  /// The same condition with a value for every cell of the face.
  Boundary with_values(std::vector<double> face_values) const;

  /// Whether ghosts are made from a mirror image: everything but periodic and interface.
  bool is_wall() const { return kind != BoundaryKind::periodic && kind != BoundaryKind::interface; }
  /// s_k for a layer k >= 1 and the grid's spacing.
  double multiplier(int layer, double spacing) const;
  /// c_k for a face value v. Zero for conormal_flux, whose flux enters where a Diffusion is applied.
  double offset(int layer, double spacing, double v) const;
  /// Empty, or how the two differ.
  std::string difference(const Boundary& other) const;
};

}  // namespace shardwise
