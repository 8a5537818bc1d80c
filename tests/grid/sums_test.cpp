// The three levels of sums, and what a solver notices of them.

#include <gtest/gtest.h>

#include <cmath>

#include "grid/backends.hpp"
#include "grid/binned_total.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

BinnedSum sum_of(std::span<const double> values) {
  BinnedSum total;
  for (const double v : values) {
    BinWindow window(bin_of(std::abs(v)));
    window.add(v);
    window.flush(total);
  }
  return total;
}

TEST(GridSums, TotalsHoldMorePiecesThanADigitOfOne) {
  // Digits at the edge of 64 bits: 2^62 units each, a thousand times over.
  BinnedSum full;
  full.top = 3;
  for (std::int64_t& digit : full.digit) digit = std::int64_t{1} << 62;
  BinnedTotal total;
  for (int piece = 0; piece < 1000; ++piece) total.add(full);
  const double expected =
      1000 * (std::ldexp(1.0, 62 + 96) + std::ldexp(1.0, 62 + 64) + std::ldexp(1.0, 62 + 32));
  EXPECT_EQ(total.value(), expected);
  // The same through words, as ranks do, in halves.
  BinnedTotal half;
  for (int piece = 0; piece < 500; ++piece) half.add(full);
  std::vector<std::int64_t> words;
  half.append_to(words);
  ASSERT_EQ(words.size(), BinnedTotal::words);
  half.add(BinnedTotal::from_words(words));
  EXPECT_EQ(half.value(), expected);
  // Negative ones, and a difference that leaves little.
  BinnedSum minus = full;
  for (std::int64_t& digit : minus.digit) digit = -digit;
  for (int piece = 0; piece < 1000; ++piece) total.add(minus);
  EXPECT_EQ(total.value(), 0);
  total.add(minus);
  EXPECT_EQ(total.value(), -expected / 1000);
}

TEST(GridSums, TotalsAreRoundedOnceWhateverTheOrderOfPieces) {
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 3000; ++i)
    values.push_back(random_value(i, 1) * std::pow(10.0, 9 * random_value(i, 2)));
  long double exact = 0;
  for (const double v : values) exact += v;
  double first = 0;
  for (const std::size_t pieces : {1u, 7u, 300u})
    for (const bool backwards : {false, true}) {
      std::vector<BinnedSum> sums;
      for (std::size_t p = 0; p < pieces; ++p) {
        const std::size_t begin = values.size() * p / pieces, end = values.size() * (p + 1) / pieces;
        sums.push_back(sum_of(std::span(values).subspan(begin, end - begin)));
      }
      if (backwards) std::reverse(sums.begin(), sums.end());
      BinnedTotal total;
      for (const BinnedSum& s : sums) total.add(s);
      if (first == 0) first = total.value();
      EXPECT_EQ(total.value(), first);
    }
  EXPECT_NEAR(first, static_cast<double>(exact), 1e-15 * std::abs(first));
}

TEST(GridSums, FastAndOrderedRepeatAndAreClose) {
  const CartesianGrid g = make_grid({67, 30, 21}, "DNPPRD");
  const std::vector<double> a = random_cells<double>(g, 1), b = random_cells<double>(g, 2);
  long double exact = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    exact += static_cast<long double>(a[i] * b[i]);  // products are rounded once
    size += std::abs(a[i] * b[i]);
  }
  bool differs = false;
  for (const std::string spec : {"host:1x1", "host:3x1", "sim:2"}) {
    for (const AnyBackend& cut : cuts_on(spec, g, {{3}, {5}}))
      for (const GhostLayout layout : {GhostLayout::planes, GhostLayout::pitched}) {
        const Blocks blocks(g, cut, layout);
        const Field<double> x = make_field(blocks, a, "x"), y = make_field(blocks, b, "y");
        for (const Accumulation level : {Accumulation::fast, Accumulation::ordered}) {
          const double once = dot(x, y, level);
          EXPECT_NEAR(once, static_cast<double>(exact), 1e-13 * static_cast<double>(size));
          for (int again = 0; again < 5; ++again) EXPECT_EQ(dot(x, y, level), once);
          differs = differs || once != dot(x, y);
        }
        EXPECT_NEAR(dot(x, y), static_cast<double>(exact), 4e-16 * std::abs(static_cast<double>(exact)));
        if (blocks.sim_world())
          for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
      }
  }
  EXPECT_TRUE(differs) << "the data is too tame to tell plain sums from exact ones";
}

TEST(GridSums, OrderedDoesNotKnowTheNumberOfThreads) {
  const CartesianGrid g = make_grid({33, 30, 21}, "DNPPRD");
  double first = 0;
  for (const std::string spec : {"host:1x1", "host:1x2", "host:3x1", "sim:3"}) {
    const Blocks blocks(g, cuts_on(spec, g, {{3}}).front());
    const Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x");
    const double value = dot(x, x, Accumulation::ordered);
    if (first == 0) first = value;
    EXPECT_EQ(value, first) << spec;
  }
}

TEST(GridSums, PlainOnesSeeWhatIsNotFinite) {
  const CartesianGrid g = make_grid({9, 8}, "DNPP");
  const Blocks blocks(g, cut(g, {2}));
  std::vector<double> values = random_cells<double>(g, 1);
  values[17] = std::numeric_limits<double>::quiet_NaN();
  const Field<double> x = make_field(blocks, values, "x");
  EXPECT_TRUE(std::isnan(dot(x, x, Accumulation::fast)));
  EXPECT_TRUE(std::isnan(dot(x, x, Accumulation::ordered)));
}

/// Iterations without exact sums differ from those with them by rounding alone: two, or 2 %.
TEST(GridSums, IterationsWithPlainSumsStayInTheBand) {
  const CartesianGrid g = make_grid({24, 20, 22}, "DNPPRD");
  const std::vector<double> f = random_cells<double>(g, 5);
  const std::vector<double> kappa = random_cells<double>(g, 90, 0.01, 1);
  const auto iterations = [&](const AnyBackend& p, Accumulation level) {
    const Blocks blocks(g, p);
    PreparedOperator<double> a(-diffusion(Coefficient(g, kappa)), blocks);
    Field<double> u(blocks, "u");
    u.fill(0);
    SolverOptions<double> options;
    options.accumulation = level;
    const SolverResult result = conjugate_gradient(a, u, make_field(blocks, f, "f"), options);
    EXPECT_TRUE(result.converged) << result.reason();
    return result.iterations;
  };
  const std::int64_t exact = iterations(cut(g, {1}), Accumulation::exact);
  EXPECT_GT(exact, 40);
  for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{2}, Serial{3}, Serial{5}, Serial{0, {2, 2, 2}}}))
    for (const Accumulation level : {Accumulation::fast, Accumulation::ordered}) {
      const double band = std::max(2.0, 0.02 * static_cast<double>(exact));
      EXPECT_NEAR(static_cast<double>(iterations(p, level)), static_cast<double>(exact), band);
    }
}

}  // namespace
}  // namespace shardwise::grid_test
