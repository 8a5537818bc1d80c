#include "shardwise/grid/solvers.hpp"

#include <fmt/format.h>

#include <cmath>

#include "grid/field_sums.hpp"
#include "grid/pointwise.hpp"
#include "grid/prepared_state.hpp"
#include "shardwise/grid/grid_error.hpp"

namespace shardwise {

const char* SolverResult::reason() const {
  if (converged) return "converged";
  if (cancelled) return "cancelled";
  if (stagnated) return "stagnated";
  if (breakdown) return "breakdown";
  return reached_maximum ? "maximum" : "unknown";
}

namespace {

/// What both solvers share: sums, the residual, the null space, when to stop.
template <class T>
class Solve {
 public:
  Solve(PreparedOperator<T>& a, Field<T>& u, const Field<T>& f, const SolverOptions<T>& options)
      : a_(a),
        u_(u),
        options_(options),
        blocks_(a.blocks()),
        sums_(blocks_, options.accumulation),
        rhs_(blocks_, "rhs"),
        work_(blocks_, "work") {
    check_blocks(blocks_, u, "solver");
    check_blocks(blocks_, f, "solver");
    rhs_.copy_from(f);
    find_null_space();
    norm_f_ = norm(rhs_);
    if (!std::isfinite(norm_f_))
      throw GridError(GridErrorCode::bad_argument,
                      "solver: the right-hand side is not finite; look for NaN in it", {norm_f_});
    result_.tolerance = std::max(options.rtol * norm_f_, options.atol);
  }

  double dot(const Field<T>& x, const Field<T>& y) { return sums_.dot(x, y); }
  double norm(const Field<T>& x) { return std::sqrt(sums_.dot(x, x)); }
  FieldSums& sums() { return sums_; }
  const Field<T>& rhs() const { return rhs_; }
  bool is_singular() const { return singular_; }
  SolverResult& result() { return result_; }

  /// x <- x - mean, where the operator annihilates constants.
  void project(Field<T>& x) {
    if (!singular_) return;
    const double mean = sums_.total(x) / static_cast<double>(blocks_.grid().global_cell_count());
    enqueue_axpby(blocks_, x.storage(), ones_->storage(), static_cast<T>(-mean), T(1));
  }
  /// r <- f - A u
  void residual(Field<T>& r) {
    r.copy_from(rhs_);
    a_.apply(r, u_, T(-1), T(1));
    project(r);
  }
  void axpby(Field<T>& y, const Field<T>& x, double alpha, double beta) {
    enqueue_axpby(blocks_, y.storage(), x.storage(), static_cast<T>(alpha), static_cast<T>(beta));
  }
  /// Called with the recurrence's |r|: whether the loop ends.
  bool note(double residual) {
    result_.residual = residual;
    result_.history.push_back(residual);
    if (options_.progress) options_.progress(result_.iterations, residual);
    if (!std::isfinite(residual)) result_.breakdown = true;
    // Every process ends with the same iteration.
    if (options_.cancel) result_.cancelled = !blocks_.state().transport->agree(!options_.cancel->load());
    if (result_.iterations >= options_.max_iterations) result_.reached_maximum = true;
    return result_.breakdown || result_.cancelled || residual <= result_.tolerance || result_.reached_maximum;
  }
  /// After a loop: the true residual in `r`. True where the solver should go on from it: the recurrence was
  /// too good, and the last restart brought more than rounding.
  bool verify(Field<T>& r) {
    residual(r);
    const double truth = norm(r);
    result_.true_residual = truth;
    result_.converged = truth <= result_.tolerance;
    if (result_.converged) {
      result_.reached_maximum = false;
      return false;
    }
    if (result_.breakdown || result_.cancelled || result_.reached_maximum) return false;
    if (!(truth < 0.5 * last_truth_)) {
      result_.stagnated = true;
      return false;
    }
    last_truth_ = truth;
    return true;
  }

 private:
  void find_null_space() {
    ones_.emplace(blocks_, "ones");
    ones_->fill(T(1));
    a_.apply(work_, *ones_);
    singular_ = sums_.dot(work_, work_) == 0;
    if (!singular_) {
      ones_.reset();
      return;
    }
    const double count = static_cast<double>(blocks_.grid().global_cell_count());
    const double mean = sums_.total(rhs_) / count, size = norm(rhs_) / std::sqrt(count);
    const double rounding = 64 * static_cast<double>(std::numeric_limits<T>::epsilon()) * size;
    if (options_.null_space == NullSpace::refuse && std::abs(mean) > rounding)
      throw GridError(
          GridErrorCode::singular,
          fmt::format("solver: the operator maps constants to 0, so the right-hand side must have mean 0, "
                      "but its mean is {} (root mean square {}); take the mean out, or use "
                      "NullSpace::project",
                      mean, size),
          {mean, size});
    project(rhs_);
  }

  PreparedOperator<T>& a_;
  Field<T>& u_;
  const SolverOptions<T>& options_;
  Blocks blocks_;
  FieldSums sums_;
  Field<T> rhs_, work_;
  std::optional<Field<T>> ones_;
  bool singular_ = false;
  double norm_f_ = 0, last_truth_ = std::numeric_limits<double>::infinity();
  SolverResult result_;
};

/// 1 / diagonal. Throws bad_argument where an entry is 0.
template <class T>
Field<T> inverse_diagonal(PreparedOperator<T>& a) {
  Field<T> d(a.blocks(), "inverse diagonal");
  a.diagonal(d);
  for (const int part : a.blocks().local_parts()) {
    std::vector<T> values = d.memory(part);
    const BlockLayout& l = d.layout(part);
    for (std::int64_t k = 0; k < l.cells[2]; ++k)
      for (std::int64_t j = 0; j < l.cells[1]; ++j)
        for (std::int64_t i = 0; i < l.cells[0]; ++i) {
          T& value = values[static_cast<std::size_t>(l.origin + i + j * l.stride[1] + k * l.stride[2])];
          if (!(std::abs(value) > T(0))) {
            const CartesianGrid& grid = a.blocks().local_grid(part);
            const std::int64_t cell =
                grid.first(0) + i +
                grid.global_cells(0) * (grid.first(1) + j + grid.global_cells(1) * (grid.first(2) + k));
            throw GridError(
                GridErrorCode::bad_argument,
                fmt::format("solver: Jacobi needs a diagonal without zeros, but cell {} has {}", cell, value),
                {static_cast<double>(cell), static_cast<double>(value)});
          }
          value = T(1) / value;
        }
    d.set_memory(part, values);
  }
  return d;
}

}  // namespace

template <class T>
SolverResult conjugate_gradient(PreparedOperator<T>& a, Field<T>& u, const Field<T>& f,
                                const SolverOptions<T>& options) {
  Solve<T> solve(a, u, f, options);
  const Blocks blocks = a.blocks();
  Field<T> r(blocks, "r"), p(blocks, "p"), q(blocks, "A p");
  std::optional<Field<T>> d, z;
  if (options.preconditioner) {
    z.emplace(blocks, "z");
  } else if (options.jacobi) {
    d = inverse_diagonal(a);
  }
  SolverResult& result = solve.result();
  const auto precondition = [&] {
    if (!z) return;
    options.preconditioner(*z, r);
    solve.project(*z);
  };
  // u += alpha p, which an iteration leaves to its end, and the next direction: p <- M^-1 r + beta p. With
  // Jacobi, M^-1 r is never stored.
  const auto turn = [&](double alpha, double beta) {
    enqueue_direction(blocks, u, p, z ? *z : r, d ? &*d : nullptr, static_cast<T>(alpha),
                      static_cast<T>(beta));
  };
  solve.project(u);
  solve.residual(r);
  do {
    precondition();
    p.fill(T(0));
    turn(0, 0);
    double rr = solve.dot(r, r);
    double rz = z ? solve.dot(r, *z) : d ? solve.dot(r, p) : rr;
    if (solve.note(std::sqrt(rr))) continue;
    for (;;) {
      const double pq = apply_with_dot(a, q, p, solve.sums());
      if (pq < 0 && result.iterations == 0)
        throw GridError(
            GridErrorCode::wrong_sign,
            fmt::format("conjugate_gradient: p.Ap is {}, so {} is not positive; Laplacian and Diffusion "
                        "are negative: solve (-L) u = -f",
                        pq, a.op().text()),
            {pq});
      if (!(pq > 0)) {
        result.breakdown = true;
        break;
      }
      const double alpha = rz / pq;
      const std::array<double, 2> sums =
          solve.sums().residual_update(r, q, d ? &*d : nullptr, static_cast<T>(alpha));
      ++result.iterations;
      if (solve.note(std::sqrt(sums[0]))) {
        turn(alpha, 0);
        break;
      }
      precondition();
      const double next = z ? solve.dot(r, *z) : sums[1];
      turn(alpha, next / rz);
      rz = next;
    }
  } while (solve.verify(r));
  solve.project(u);
  return result;
}

template <class T>
SolverResult bicgstab(PreparedOperator<T>& a, Field<T>& u, const Field<T>& f,
                      const SolverOptions<T>& options) {
  if (options.jacobi || options.preconditioner)
    throw GridError(GridErrorCode::bad_argument,
                    "bicgstab: no preconditioner in this version; scale the equation, or use CG");
  Solve<T> solve(a, u, f, options);
  const Blocks blocks = a.blocks();
  Field<T> r(blocks, "r"), shadow(blocks, "shadow"), p(blocks, "p"), v(blocks, "A p"), t(blocks, "A s");
  SolverResult& result = solve.result();
  solve.project(u);
  solve.residual(r);
  do {
    shadow.copy_from(r);
    p.copy_from(r);
    double rho = solve.dot(shadow, r);
    if (solve.note(solve.norm(r))) continue;
    for (;;) {
      a.apply(v, p);
      const double sv = solve.dot(shadow, v);
      const double alpha = rho / sv;
      if (!std::isfinite(alpha)) {
        result.breakdown = true;
        break;
      }
      solve.axpby(r, v, -alpha, 1);  // s
      a.apply(t, r);
      const std::array<double, 2> ts = solve.sums().two_dots(r, t);
      const double omega = ts[1] > 0 ? ts[0] / ts[1] : 0;
      solve.axpby(u, p, alpha, 1);
      solve.axpby(u, r, omega, 1);
      solve.axpby(r, t, -omega, 1);
      ++result.iterations;
      if (solve.note(solve.norm(r))) break;
      const double next = solve.dot(shadow, r);
      const double beta = next / rho * (alpha / omega);
      if (!std::isfinite(beta) || next == 0) break;  // a fresh shadow from the true residual
      solve.axpby(p, v, -omega, 1);
      solve.axpby(p, r, 1, beta);
      rho = next;
    }
  } while (solve.verify(r));
  solve.project(u);
  return result;
}

template <class T>
double dot(const Field<T>& x, const Field<T>& y, Accumulation accumulation) {
  check_blocks(x.blocks(), y, "dot");
  return FieldSums(x.blocks(), accumulation).dot(x, y);
}
template <class T>
double norm2(const Field<T>& x, Accumulation accumulation) {
  return std::sqrt(FieldSums(x.blocks(), accumulation).dot(x, x));
}

double largest_step(TimeScheme scheme, double radius) {
  const double limit = scheme == TimeScheme::euler ? 2.0 : scheme == TimeScheme::ssp_rk3 ? 2.5127 : 2.7853;
  return limit / radius;
}

double diffusion_radius(const CartesianGrid& grid, double kappa_max) {
  double sum = 0;
  for (int d = 0; d < grid.dims(); ++d) sum += grid.inverse_square(d);
  return 4 * kappa_max * sum;
}

template <class T>
TimeStepper<T>::TimeStepper(PreparedOperator<T>& l, TimeScheme scheme,
                            std::function<void(double, Field<T>&)> source)
    : l_(l),
      scheme_(scheme),
      source_(std::move(source)),
      lift_(l.blocks(), "lift"),
      source_field_(l.blocks(), "source") {
  l_.boundary_rhs(lift_);
  const int stages = scheme == TimeScheme::euler ? 1 : scheme == TimeScheme::ssp_rk3 ? 2 : 3;
  for (int s = 0; s < stages; ++s) stages_.emplace_back(l.blocks(), "stage");
}

// k <- L(u) + b + source(t)
template <class T>
void TimeStepper<T>::slope(Field<T>& k, const Field<T>& u, double t) {
  k.copy_from(lift_);
  if (source_) {
    source_(t, source_field_);
    enqueue_axpby(l_.blocks(), k.storage(), source_field_.storage(), T(1), T(1));
  }
  l_.apply(k, u, T(1), T(1));
}

template <class T>
void TimeStepper<T>::step(Field<T>& u, double t, double dt) {
  const auto axpby = [&](Field<T>& y, const Field<T>& x, double a, double b) {
    enqueue_axpby(l_.blocks(), y.storage(), x.storage(), static_cast<T>(a), static_cast<T>(b));
  };
  Field<T>& k = stages_[0];
  if (scheme_ == TimeScheme::euler) {
    slope(k, u, t);
    axpby(u, k, dt, 1);
    return;
  }
  Field<T>& v = stages_[1];
  if (scheme_ == TimeScheme::ssp_rk3) {
    slope(k, u, t);
    v.copy_from(u);
    axpby(v, k, dt, 1);  // u1
    slope(k, v, t + dt);
    axpby(v, k, dt, 1);
    axpby(v, u, 0.75, 0.25);  // u2 = 3/4 u + 1/4 (u1 + dt k)
    slope(k, v, t + dt / 2);
    axpby(v, k, dt, 1);
    axpby(u, v, 2.0 / 3, 1.0 / 3);
    return;
  }
  Field<T>& sum = stages_[2];
  slope(k, u, t);
  sum.copy_from(u);
  axpby(sum, k, dt / 6, 1);
  const double weight[] = {dt / 3, dt / 3, dt / 6}, reach[] = {dt / 2, dt / 2, dt};
  for (int s = 0; s < 3; ++s) {
    v.copy_from(u);
    axpby(v, k, reach[s], 1);
    slope(k, v, t + reach[s]);
    axpby(sum, k, weight[s], 1);
  }
  u.copy_from(sum);
}

#define SW_INSTANTIATE(T)                                                                                    \
  template SolverResult conjugate_gradient(PreparedOperator<T>&, Field<T>&, const Field<T>&,                 \
                                           const SolverOptions<T>&);                                         \
  template SolverResult bicgstab(PreparedOperator<T>&, Field<T>&, const Field<T>&, const SolverOptions<T>&); \
  template double dot(const Field<T>&, const Field<T>&, Accumulation);                                       \
  template double norm2(const Field<T>&, Accumulation);                                                      \
  template class TimeStepper<T>
SW_INSTANTIATE(float);
SW_INSTANTIATE(double);

}  // namespace shardwise
