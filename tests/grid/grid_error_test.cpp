// Grids, partitions, and what is refused: code and numbers, not prose.

#include <gtest/gtest.h>

#include <cmath>

#include "grid/backends.hpp"
#include "shardwise/grid/grid_error.hpp"

namespace shardwise::grid_test {
namespace {

template <class F>
void expect_refused(GridErrorCode code, std::vector<double> numbers, F&& f, const char* text = "") {
  try {
    f();
    ADD_FAILURE() << "not refused: " << to_string(code);
  } catch (const GridError& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    ASSERT_GE(error.numbers().size(), numbers.size()) << error.what();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(error.numbers()[i], numbers[i]) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(GridGrid, RefusesWhatIsNoGrid) {
  const auto build = [](std::vector<double> lo, std::vector<double> hi, std::vector<std::int64_t> cells,
                        std::vector<BoundaryPair> b = {}, std::vector<int> halo = {}) {
    return [=] { CartesianGrid{GridSpec{lo, hi, cells, b, halo}}; };
  };
  expect_refused(GridErrorCode::bad_extent, {1, 2, 2}, build({0, 2}, {1, 2}, {4, 4}), "dimension 1");
  expect_refused(GridErrorCode::bad_extent, {0}, build({0}, {INFINITY}, {4}));
  expect_refused(GridErrorCode::bad_cells, {1, 0}, build({0, 0}, {1, 1}, {4, 0}), "dimension 1");
  expect_refused(GridErrorCode::bad_cells, {4}, build({0, 0, 0, 0}, {1, 1, 1, 1}, {4, 4, 4, 4}));
  expect_refused(GridErrorCode::bad_halo, {0, 0}, build({0}, {1}, {4}, {}, {0}));
  expect_refused(GridErrorCode::thin_dimension, {0, 2, 3}, build({0}, {1}, {2}, {}, {3}));
  expect_refused(GridErrorCode::periodic_unpaired, {0},
                 build({0}, {1}, {4}, {{Boundary::periodic(), Boundary::dirichlet()}}));
  expect_refused(GridErrorCode::bad_boundary, {0},
                 build({0}, {1}, {4}, {{Boundary::interface(), Boundary::dirichlet()}}));
  // b / spacing + a / 2 = 0 for spacing 1/4: a = -8 b.
  expect_refused(GridErrorCode::bad_boundary, {-8, 1, 0.25},
                 build({0}, {1}, {4}, {{Boundary::robin(-8, 1, 0), Boundary::dirichlet()}}));
  expect_refused(GridErrorCode::size_mismatch, {3, 2},
                 build({0, 0}, {1, 1}, {4, 3}, {{Boundary::dirichlet().with_values({1, 2}), {}}, {}}));
  expect_refused(GridErrorCode::bad_boundary, {0, 0, 1}, [] { Boundary::robin(0, 0, 1); });
  expect_refused(GridErrorCode::bad_boundary, {}, [] { Boundary::dirichlet(NAN); });
}

TEST(GridGrid, BlocksHaveTheCentresOfTheWhole) {
  const CartesianGrid g = make_grid({10, 7, 11}, "DNPPRD");
  for (const std::array<int, 3> p : {std::array{1, 1, 3}, {2, 2, 1}, {3, 1, 5}, {1, 3, 1}}) {
    const Partition partition(g, {0, p, false});
    for (int part = 0; part < partition.parts(); ++part) {
      const CartesianGrid& block = partition.block(part);
      for (int d = 0; d < 3; ++d)
        for (std::int64_t i = 0; i < block.cells(d); ++i)
          EXPECT_EQ(block.centre(d, i), g.centre(d, block.first(d) + i));
    }
  }
}

TEST(GridGrid, SplitsCoverEverythingEvenly) {
  for (std::int64_t n = 1; n <= 40; ++n)
    for (int parts = 1; parts <= n; ++parts) {
      std::int64_t least = n, most = 0;
      EXPECT_EQ(even_split_begin(n, parts, 0), 0);
      EXPECT_EQ(even_split_begin(n, parts, parts), n);
      for (int c = 0; c < parts; ++c) {
        const std::int64_t size = even_split_begin(n, parts, c + 1) - even_split_begin(n, parts, c);
        least = std::min(least, size);
        most = std::max(most, size);
      }
      EXPECT_LE(most - least, 1);
      EXPECT_GE(least, 1);
      for (const std::string pair : {"PP", "DN"}) {
        const Partition partition(make_grid({n}, pair), {parts, {}, false});
        for (int c = 0; c < parts; ++c)
          for (int side = 0; side < 2; ++side) {
            const bool cut = parts > 1 && (pair == "PP" || (side == 0 ? c > 0 : c + 1 < parts));
            EXPECT_EQ(partition.block(c).boundary(0, side).kind == BoundaryKind::interface, cut);
            EXPECT_EQ(partition.neighbour(c, 0, side), cut ? (c + (side == 0 ? parts - 1 : 1)) % parts : -1);
          }
      }
    }
}

TEST(GridGrid, DifferencesAreNamed) {
  const CartesianGrid g = make_grid({4, 5}, "DNPP");
  EXPECT_EQ(g.difference(make_grid({4, 5}, "DNPP")), "");
  EXPECT_NE(g.difference(make_grid({4, 6}, "DNPP")).find("cells of dimension 1"), std::string::npos);
  EXPECT_NE(g.difference(make_grid({4, 5}, "NNPP")).find("low boundary of dimension 0"), std::string::npos);
  EXPECT_NE(g.difference(make_grid({4, 5}, "DNPP", 2)).find("halo of dimension 0"), std::string::npos);
}

TEST(GridGrid, ProcessGridsHaveTheLeastCut) {
  const CartesianGrid cube = make_grid({32, 32, 32}, "DDDDDD"), flat = make_grid({64, 64, 4}, "DDDDDD");
  EXPECT_EQ(Partition(cube, {8, {}, true}).process_grid(), (std::array{2, 2, 2}));
  EXPECT_EQ(Partition(cube, {2, {}, true}).process_grid(), (std::array{1, 1, 2}));
  EXPECT_EQ(Partition(cube, {8, {}, false}).process_grid(), (std::array{1, 1, 8}));
  EXPECT_EQ(Partition(flat, {4, {}, true}).process_grid(), (std::array{2, 2, 1}));
  EXPECT_EQ(Partition(cube, {6, {0, 3, 0}, false}).process_grid(), (std::array{1, 3, 2}));
  expect_refused(GridErrorCode::bad_part_count, {6}, [&] { Partition(cube, {6, {4, 0, 0}, false}); });
  expect_refused(GridErrorCode::bad_part_count, {-1}, [&] { Partition(cube, {-1, {}, false}); });
}

TEST(GridErrors, NameWhatCannotRunOnBlocks) {
  const CartesianGrid g = make_grid({6, 5}, "DNPP"), other = make_grid({6, 5}, "DDPP");
  const Blocks blocks(g, cut(g, {2}));
  const auto prepare = [&](const Operator& op, bool need_adjoint = false) {
    return [&blocks, op, need_adjoint] {
      PrepareOptions options;
      options.need_adjoint = need_adjoint;
      PreparedOperator<double>(op, blocks, options);
    };
  };
  expect_refused(GridErrorCode::different_grids, {}, prepare(laplacian(g) + 2.0 * laplacian(other)),
                 "Added[1] / Scaled");
  expect_refused(GridErrorCode::different_grids, {},
                 prepare(compose(laplacian(g), scaling(Coefficient::constant(other, 1)))), "Composed.inner");
  UserLeaf leaf;
  leaf.name = "mine";
  leaf.run_double = [](LaunchContext&, const UserLeafCall<double>&) {};
  leaf.distributable = false;
  const int parts = blocks.partition().parts();
  if (parts > 1)
    expect_refused(GridErrorCode::not_distributable, {static_cast<double>(parts)},
                   prepare(identity() + user_leaf(g, leaf)), "Added[1]");
  leaf.distributable = true;
  expect_refused(GridErrorCode::not_linear, {}, prepare(identity() + user_leaf(g, leaf), true), "Added[1]");
  leaf.traits.linear = true;
  expect_refused(GridErrorCode::no_adjoint, {}, prepare(user_leaf(g, leaf), true), "mine");
  leaf.radius = 2;
  expect_refused(GridErrorCode::halo_too_small, {2, 1}, [&] { user_leaf(g, leaf); });
  expect_refused(
      GridErrorCode::part_too_thin, {7, 1, 6}, [] { Blocks(make_grid({6}, "DD"), Serial{7}); }, "1, 1, 1");
  expect_refused(
      GridErrorCode::part_too_thin, {3, 2, 2}, [] { Blocks(make_grid({5}, "PP", 2), Serial{3}); }, "2, 2, 1");
  expect_refused(GridErrorCode::too_many_devices, {3, 2}, [&] {
    Blocks(g, LocalDevices{open_devices("host:3x1"), 2});
  });
  expect_refused(
      GridErrorCode::unavailable, {}, [&] { Blocks(g, Mpi{}); }, "SHARDWISE_MPI");
  if (parts > 1)
    expect_refused(GridErrorCode::already_partitioned, {}, [&] { Blocks(blocks.local_grid(0), Serial{1}); });
  expect_refused(GridErrorCode::bad_argument, {2, 2}, [&] { derivative(g, 2); });
  expect_refused(GridErrorCode::size_mismatch, {30, 3}, [&] { Coefficient(g, {1, 2, 3}); });
  std::vector<double> kappa(30, 1.0);
  kappa[13] = -2;
  expect_refused(
      GridErrorCode::not_positive, {13, -2}, [&] { diffusion(Coefficient(g, kappa), Mean::harmonic); },
      "(1, 2, 0)");
  diffusion(Coefficient(g, kappa), Mean::arithmetic);
  static_assert(is_available<Mpi>() && is_available<Serial>());

  PreparedOperator<double> a(compose(laplacian(g), laplacian(g)), blocks);
  Field<double> x(blocks, "x"), y(blocks, "y");
  expect_refused(GridErrorCode::aliasing, {}, [&] { a.apply(x, x); });
  expect_refused(
      GridErrorCode::no_diagonal, {}, [&] { a.diagonal(y); }, "Composed");
  const Blocks elsewhere(g, Serial{3});
  Field<double> z(elsewhere, "z");
  expect_refused(GridErrorCode::wrong_blocks, {}, [&] { a.apply(y, z); });
  expect_refused(GridErrorCode::size_mismatch, {30, 2}, [&] { x.scatter_global(std::vector<double>{1, 2}); });
}

}  // namespace
}  // namespace shardwise::grid_test
