#include "shardwise/grid/boundary.hpp"

#include <fmt/format.h>

#include <cmath>

#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

const char* to_string(BoundaryKind kind) noexcept {
  switch (kind) {
    case BoundaryKind::periodic:
      return "periodic";
    case BoundaryKind::dirichlet:
      return "dirichlet";
    case BoundaryKind::neumann:
      return "neumann";
    case BoundaryKind::robin:
      return "robin";
    case BoundaryKind::conormal_flux:
      return "conormal_flux";
    case BoundaryKind::interface:
      return "interface";
  }
  return "unknown";
}

namespace {

Boundary make(BoundaryKind kind, double a, double b, double value) {
  if (!std::isfinite(value) || !std::isfinite(a) || !std::isfinite(b))
    throw GridError(GridErrorCode::bad_boundary,
                    fmt::format("boundary {}: its numbers must be finite (a = {}, b = {}, value = {})",
                                to_string(kind), a, b, value),
                    {a, b, value});
  Boundary boundary;
  boundary.kind = kind;
  boundary.a = a;
  boundary.b = b;
  boundary.value = value;
  return boundary;
}

}  // namespace

Boundary Boundary::periodic() {
  return make(BoundaryKind::periodic, 0, 0, 0);
}
Boundary Boundary::dirichlet(double value) {
  return make(BoundaryKind::dirichlet, 1, 0, value);
}
Boundary Boundary::neumann(double flux) {
  return make(BoundaryKind::neumann, 0, 1, flux);
}
Boundary Boundary::robin(double a, double b, double f) {
  const Boundary robin = make(BoundaryKind::robin, a, b, f);
  if (a == 0 && b == 0)
    throw GridError(GridErrorCode::bad_boundary,
                    "boundary robin: a u + b du/dn = f needs a or b other than 0; give one of them",
                    {a, b, f});
  if (b == 0) return dirichlet(f / a);
  if (a == 0) return neumann(f / b);
  return robin;
}
Boundary Boundary::conormal_flux(double flux) {
  return make(BoundaryKind::conormal_flux, 0, 1, flux);
}
Boundary Boundary::interface() {
  return make(BoundaryKind::interface, 0, 0, 0);
}

Boundary Boundary::with_values(std::vector<double> face_values) const {
  if (!is_wall())
    throw GridError(GridErrorCode::bad_boundary,
                    fmt::format("boundary {}: only a wall has values", to_string(kind)));
  for (std::size_t i = 0; i < face_values.size(); ++i)
    if (!std::isfinite(face_values[i]))
      throw GridError(GridErrorCode::bad_boundary,
                      fmt::format("boundary {}: the value of face cell {} is {}; values must be finite",
                                  to_string(kind), i, face_values[i]),
                      {static_cast<double>(i), face_values[i]});
  Boundary result = *this;
  result.values = std::make_shared<const std::vector<double>>(std::move(face_values));
  return result;
}

// Robin: a (g + m) / 2 + b (g - m) / delta = f, solved for the ghost g with the mirror image m.
double Boundary::multiplier(int layer, double spacing) const {
  switch (kind) {
    case BoundaryKind::dirichlet:
      return -1;
    case BoundaryKind::robin: {
      const double slope = b / ((2 * layer - 1) * spacing);
      return (slope - a / 2) / (slope + a / 2);
    }
    default:
      return 1;
  }
}

double Boundary::offset(int layer, double spacing, double v) const {
  switch (kind) {
    case BoundaryKind::dirichlet:
      return 2 * v;
    case BoundaryKind::neumann:
      return (2 * layer - 1) * spacing * v;
    case BoundaryKind::robin:
      return v / (b / ((2 * layer - 1) * spacing) + a / 2);
    default:
      return 0;
  }
}

std::string Boundary::difference(const Boundary& other) const {
  if (kind != other.kind) return fmt::format("{} against {}", to_string(kind), to_string(other.kind));
  if (a != other.a || b != other.b)
    return fmt::format("(a, b) = ({}, {}) against ({}, {})", a, b, other.a, other.b);
  if (value != other.value) return fmt::format("value {} against {}", value, other.value);
  if (values == other.values) return "";
  if (!values || !other.values) return "values for each cell on one of them only";
  return *values == *other.values ? "" : "other values for each cell";
}

}  // namespace shardwise
