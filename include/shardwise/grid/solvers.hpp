#pragma once
// Krylov solvers for operators on blocks, and explicit time steps. With exact sums every iterate has the same
// bits for every partition.

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "shardwise/grid/prepared_operator.hpp"
#include "shardwise/numeric/accumulation.hpp"

namespace shardwise {

/// z <- M^-1 r, symmetric and positive: what CG is sped up with.
template <class T>
using Preconditioner = std::function<void(Field<T>& z, const Field<T>& r)>;

/// What to do with an operator that maps constants to 0 (Neumann and periodic walls all around).
enum class NullSpace {
  project,  ///< take the mean out of the right-hand side and of the solution
  refuse,   ///< as project, but a right-hand side with a mean beyond rounding is an error (singular)
};

template <class T>
struct SolverOptions {
  double rtol = 1e-8, atol = 0;  ///< stops at |f - A u|_2 <= max(rtol |f|_2, atol)
  std::int64_t max_iterations = 10'000;
  Accumulation accumulation = Accumulation::exact;
  NullSpace null_space = NullSpace::project;
  bool jacobi = false;               ///< divide by the diagonal
  Preconditioner<T> preconditioner;  ///< in place of jacobi
  const std::atomic<bool>* cancel = nullptr;
  /// Called after every iteration with the residual's norm.
  std::function<void(std::int64_t iteration, double residual)> progress;
};

struct SolverResult {
  bool converged = false;  ///< the true residual is below the tolerance
  bool stagnated = false;  ///< the tolerance is below what rounding lets this operator reach
  bool breakdown = false;  ///< an inner product that had to be other than 0 was 0, or not finite
  bool reached_maximum = false;
  bool cancelled = false;
  std::int64_t iterations = 0;
  double tolerance = 0;         ///< absolute
  double residual = 0;          ///< by the recurrence
  double true_residual = 0;     ///< |f - A u|
  std::vector<double> history;  ///< |r| before each iteration and after the last
  const char* reason() const;
};

/// Solves A u = f for a symmetric positive operator (give -L: Laplacian and Diffusion are negative). `u` is
/// the guess and the answer. Throws wrong_sign where p.Ap is negative at once, singular (NullSpace::refuse).
template <class T>
SolverResult conjugate_gradient(PreparedOperator<T>& a, Field<T>& u, const Field<T>& f,
                                const SolverOptions<T>& options = {});

/// BiCGStab (H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992) for operators that are not symmetric.
template <class T>
SolverResult bicgstab(PreparedOperator<T>& a, Field<T>& u, const Field<T>& f,
                      const SolverOptions<T>& options = {});

/// x . y and |x| over all cells, at the level of determinism asked for.
template <class T>
double dot(const Field<T>& x, const Field<T>& y, Accumulation accumulation = Accumulation::exact);
template <class T>
double norm2(const Field<T>& x, Accumulation accumulation = Accumulation::exact);

enum class TimeScheme {
  euler,
  ssp_rk3,  ///< C.-W. Shu, S. Osher, J. Comput. Phys. 77, 1988
  rk4,      ///< the classical Runge-Kutta method
};

/// The largest stable step for u' = L u with L negative semidefinite of spectral radius at most `radius`:
/// 2, 2.5127 and 2.7853 over it.
double largest_step(TimeScheme scheme, double radius);
/// 4 kappa_max times the sum of 1/spacing^2: a bound for the spectral radius of Laplacian (kappa_max = 1) and
/// Diffusion.
double diffusion_radius(const CartesianGrid& grid, double kappa_max);

/// Steps u' = L_full(u) + source(t) = L(u) + b + source(t), with one exchange a stage. The lift b is computed
/// once. Holds its stages: a step allocates nothing.
template <class T>
class TimeStepper {
 public:
  /// `source(t, s)`: s <- source at time t; may be empty. It may not touch other fields of the stepper.
  TimeStepper(PreparedOperator<T>& l, TimeScheme scheme,
              std::function<void(double t, Field<T>& s)> source = nullptr);
  /// Advances u from t to t + dt.
  void step(Field<T>& u, double t, double dt);

 private:
  void slope(Field<T>& k, const Field<T>& u, double t);
  PreparedOperator<T>& l_;
  TimeScheme scheme_;
  std::function<void(double, Field<T>&)> source_;
  Field<T> lift_, source_field_;
  std::vector<Field<T>> stages_;
};

extern template class TimeStepper<float>;
extern template class TimeStepper<double>;

}  // namespace shardwise
