// Fills, folds, exchanges and their transposes on arbitrary padded data.

#include <gtest/gtest.h>

#include <cmath>

#include "grid/backends.hpp"
#include "grid/halo_exchange.hpp"
#include "grid/padded_fields.hpp"
#include "shardwise/grid/grid_error.hpp"

namespace shardwise::grid_test {
namespace {

using Padded = std::vector<std::vector<double>>;  ///< the memory of every part that is here

Padded contents(const Field<double>& field) {
  field.blocks().synchronize();
  Padded all;
  for (const int part : field.blocks().local_parts()) all.push_back(field.memory(part));
  return all;
}

double inner(const Padded& a, const Padded& b) {
  double s = 0;
  for (std::size_t p = 0; p < a.size(); ++p) s += grid_test::inner(a[p], b[p]);
  return sum_of_processes(s);
}

std::vector<Serial> partitions() {
  return {{2}, {1}, {3}, {5}, {0, {2, 2, 1}}, {0, {2, 2, 2}}, {0, {3, 1, 2}}};
}

TEST(GridGhosts, ValuesFollowTheFormulas) {
  for (const std::string pair : {"PP", "DD", "DN", "NN", "RD", "NR"})
    for (const int h : {1, 2, 3}) {
      const CartesianGrid g = make_grid({7}, pair, h);
      const Blocks blocks(g, Serial{1});
      for (const bool affine : {false, true}) {
        Field<double> field = random_padded(blocks, 3);
        const std::vector<double> before = field.memory(0);
        fill_walls(blocks, field.storage(), affine);
        const std::vector<double> after = field.memory(0);
        for (int side = 0; side < 2; ++side)
          for (int k = 1; k <= h; ++k) {
            const Boundary& b = g.boundary(0, side);
            const std::size_t ghost = static_cast<std::size_t>(side == 0 ? h - k : h + 7 + k - 1);
            const bool periodic = pair == "PP";
            const std::size_t source = static_cast<std::size_t>(
                periodic ? (side == 0 ? h + 7 - k : h + k - 1) : (side == 0 ? h + k - 1 : h + 7 - k));
            const double delta = (2 * k - 1) * g.spacing(0);
            double s = 1, c = 0;
            if (b.kind == BoundaryKind::dirichlet) s = -1, c = 2 * b.value;
            if (b.kind == BoundaryKind::neumann) c = delta * b.value;
            if (b.kind == BoundaryKind::robin)
              s = (b.b / delta - b.a / 2) / (b.b / delta + b.a / 2), c = b.value / (b.b / delta + b.a / 2);
            const double expected = affine ? s * before[source] + c : s * before[source];
            EXPECT_EQ(after[ghost], expected) << pair << " side " << side << " layer " << k;
            if (!affine || !b.is_wall()) continue;
            // The condition itself, from the face's mean and slope.
            const double mean = (after[ghost] + after[source]) / 2,
                         slope = (after[ghost] - after[source]) / delta;
            const double a = b.kind == BoundaryKind::neumann ? 0 : b.a,
                         bb = b.kind == BoundaryKind::dirichlet ? 0 : b.b;
            EXPECT_NEAR(a * mean + bb * slope, b.value, 1e-12);
          }
      }
    }
}

TEST(GridGhosts, FoldIsTheTransposeOfFill) {
  for (const std::string conditions : {"PPDN", "RDNN", "NRPP", "DDDD"})
    for (const int h : {1, 2, 3})
      for (const bool even : {false, true}) {
        const CartesianGrid g = make_grid({5, 4}, conditions, h);
        const Blocks blocks(g, Serial{1});
        Field<double> x = random_padded(blocks, 1), w = random_padded(blocks, 2);
        const Padded x0 = contents(x), w0 = contents(w);
        even ? fill_even(blocks, x.storage()) : fill_walls(blocks, x.storage(), false);
        fold_walls(blocks, w.storage(), even);
        EXPECT_NEAR(grid_test::inner(contents(x)[0], w0[0]), grid_test::inner(x0[0], contents(w)[0]),
                    1e-14 * x0[0].size())
            << conditions << h;
      }
}

TEST(GridExchange, ReduceIsTheTransposeOfScatter) {
  for (const std::string conditions : {"DNDNDN", "PPPPPP", "PPDDRN"})
    for (const int h : {1, 2})
      for (const AnyBackend& p : cuts(make_grid({6, 8, 10}, conditions, h), partitions())) {
        const CartesianGrid g = make_grid({6, 8, 10}, conditions, h);
        const Blocks blocks(g, p);
        Field<double> x = random_padded(blocks, 1), y = random_padded(blocks, 2);
        const Padded x0 = contents(x), y0 = contents(y);
        HaloExchange<double> halo(blocks, GhostLayout::padded);
        halo.scatter(x.storage());
        halo.reduce(y.storage());
        const double left = inner(contents(x), y0), right = inner(x0, contents(y));
        EXPECT_NEAR(left, right, 1e-13 * std::sqrt(inner(x0, x0) * inner(y0, y0)))
            << conditions << " halo " << h << " " << p.text();
      }
}

/// Calls f(local part, element, neighbour's global index) for every interface ghost in a face.
template <class F>
void for_interface_ghosts(const Blocks& blocks, const Field<double>& field, F&& f) {
  const CartesianGrid& whole = blocks.grid();
  for (std::size_t local = 0; local < blocks.local_parts().size(); ++local) {
    const int part = blocks.local_parts()[local];
    const CartesianGrid& g = blocks.local_grid(part);
    const BlockLayout& l = field.layout(part);
    for (int d = 0; d < g.dims(); ++d)
      for (int side = 0; side < 2; ++side) {
        if (g.boundary(d, side).kind != BoundaryKind::interface) continue;
        for (std::int64_t k = 0; k < g.cells(2); ++k)
          for (std::int64_t j = 0; j < g.cells(1); ++j)
            for (std::int64_t i = 0; i < g.cells(0); ++i) {
              std::array<std::int64_t, 3> p{i, j, k};
              auto& along = p[static_cast<std::size_t>(d)];
              if (along >= g.halo(d)) continue;  // each layer once
              along = side == 0 ? -1 - along : g.cells(d) + along;
              std::array<std::int64_t, 3> global{};
              for (int e = 0; e < 3; ++e) {
                const auto at = static_cast<std::size_t>(e);
                global[at] = (g.first(e) + p[at] + whole.cells(e)) % whole.cells(e);
              }
              f(local, static_cast<std::size_t>(l.origin + p[0] + p[1] * l.stride[1] + p[2] * l.stride[2]),
                static_cast<double>(join_index(whole, global)));
            }
      }
  }
}

TEST(GridExchange, GhostsHoldTheRightCellAndNothingElseChanges) {
  for (const std::string conditions : {"DNDNDN", "PPPPPP"})
    for (const AnyBackend& p : cuts(make_grid({6, 8, 10}, conditions, 2), partitions()))
      for (const GhostLayout layout : {GhostLayout::padded, GhostLayout::pitched, GhostLayout::planes}) {
        const CartesianGrid g = make_grid({6, 8, 10}, conditions, 2);
        SCOPED_TRACE(conditions + " " + p.text());
        const Blocks blocks(g, p, layout);
        std::vector<double> numbers(static_cast<std::size_t>(g.cell_count()));
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
        Field<double> x = make_field(blocks, numbers, "numbers");
        Padded expected = contents(x);  // ghosts are NaN
        for_interface_ghosts(
            blocks, x, [&](std::size_t local, std::size_t at, double value) { expected[local][at] = value; });
        HaloExchange<double> halo(blocks, layout);
        halo.scatter(x.storage());
        const Padded got = contents(x);
        for (std::size_t part = 0; part < got.size(); ++part)
          for (std::size_t i = 0; i < got[part].size(); ++i)
            ASSERT_TRUE(got[part][i] == expected[part][i] ||
                        (std::isnan(got[part][i]) && std::isnan(expected[part][i])))
                << "part " << part << " element " << i << ": " << got[part][i] << " for "
                << expected[part][i];
        halo.reduce(x.storage());
        const Padded reduced = contents(x);
        for_interface_ghosts(
            blocks, x, [&](std::size_t local, std::size_t at, double) { ASSERT_EQ(reduced[local][at], 0); });
      }
}

TEST(GridExchange, CoefficientWindowsHaveATranspose) {
  // W: scatter, then the even fill; its transpose: the even fold, then reduce.
  const CartesianGrid g = make_grid({6, 4, 10}, "DNPPRD");
  for (const AnyBackend& p : cuts(g, partitions())) {
    const Blocks blocks(g, p);
    Field<double> k = random_padded(blocks, 1), w = random_padded(blocks, 2);
    clear_ghosts(blocks, k.storage(), false);
    const Padded k0 = contents(k), w0 = contents(w);
    HaloExchange<double> halo(blocks, GhostLayout::padded);
    halo.scatter(k.storage());
    fill_even(blocks, k.storage());
    fold_walls(blocks, w.storage(), true);
    halo.reduce(w.storage());
    EXPECT_NEAR(inner(contents(k), w0), inner(k0, contents(w)), 1e-11);
  }
}

}  // namespace
}  // namespace shardwise::grid_test
