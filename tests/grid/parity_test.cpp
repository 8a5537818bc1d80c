// Every partition gives the bits of one block, on every backend; sim's race check is silent; exchanges are
// counted.

#include <gtest/gtest.h>

#include "grid/backends.hpp"
#include "grid/everything.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

/// Slabs of 1, 2, 3, 5 and blocks.
std::vector<Serial> partitions(int dims) {
  std::vector<Serial> all{{1}, {2}, {3}, {5}};
  if (dims == 2)
    for (const std::array<int, 3> p : {std::array{2, 1, 1}, {2, 2, 1}, {3, 2, 1}, {3, 3, 1}})
      all.push_back({0, p});
  if (dims == 3)
    for (const std::array<int, 3> p : {std::array{2, 1, 1}, {1, 2, 1}, {2, 2, 2}, {3, 1, 2}})
      all.push_back({0, p});
  return all;
}

template <class T>
void check_parity(const std::vector<std::int64_t>& cells, const std::string& conditions, int halo) {
  const CartesianGrid g = make_grid(cells, conditions, halo);
  const Blocks one(g, Serial{1});
  for (const LeafCase& c : leaf_cases(g)) {
    const bool reduce = c.name.starts_with("upwind");
    const auto expected = everything<T>(c.op, one, {}, true);
    for (const AnyBackend& p : cuts(g, partitions(g.dims()))) {
      SCOPED_TRACE(c.name + " " + conditions + " " + p.text());
      std::optional<Blocks> blocks;
      try {
        blocks.emplace(g, p);
      } catch (const GridError& error) {
        ASSERT_EQ(error.code(), GridErrorCode::part_too_thin) << error.what();
        continue;
      }
      for (const Overlap overlap : {Overlap::off, Overlap::on}) {
        PrepareOptions options;
        options.overlap = overlap;
        const auto got = everything<T>(c.op, *blocks, options, true);
        ASSERT_NO_FATAL_FAILURE(expect_everything(got, expected, reduce));
      }
    }
  }
}

TEST(GridParity, EveryPartitionHasTheBitsOfOneBlock) {
  for (const int halo : {1, 2}) {
    check_parity<double>({13}, "DN", halo);
    check_parity<double>({11}, "PP", halo);
    check_parity<double>({7, 11}, "RDPP", halo);
    check_parity<double>({10, 7}, "PPNR", halo);
    check_parity<float>({10, 13}, "DNRD", halo);
  }
  check_parity<double>({7, 5, 11}, "DNPPRD", 1);
  check_parity<float>({6, 7, 10}, "PPNRPP", 1);
}

TEST(GridParity, LayoutsAgree) {
  const CartesianGrid g = make_grid({7, 6, 11}, "DNPPRD");
  for (const LeafCase& c : leaf_cases(g)) {
    const auto expected = everything<double>(c.op, Blocks(g, Serial{1}), {}, true);
    for (const GhostLayout layout : {GhostLayout::padded, GhostLayout::pitched})
      for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 1, 2}}})) {
        const auto got = everything<double>(c.op, Blocks(g, p, layout), {}, true);
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (c.name.starts_with("upwind") && i == 2) continue;
          EXPECT_TRUE(same_bits(got[i], expected[i]))
              << c.name << " " << to_string(layout) << " output " << i;
        }
      }
  }
}

TEST(GridParity, DevicesAndSimHaveTheBitsOfOneBlockWithoutARace) {
  const CartesianGrid g = make_grid({9, 8, 11}, "DNPPRD");
  std::vector<Operator> ops;
  for (const LeafCase& c : leaf_cases(g)) ops.push_back(c.op);
  ops.push_back(2.0 * laplacian(g) + compose(derivative(g, 2), laplacian(g)) -
                adjoint(compose(derivative(g, 0), scaling(3))));
  for (const std::string spec : {"host:2x1", "host:1x2", "sim:3", "sim:2"}) {
    if (!thorough() && (spec == "host:1x2" || spec == "sim:2")) continue;  // one device a rank either way
    const std::vector<AnyBackend> backends = cuts_on(spec, g, {{3}, {5}, {0, {2, 1, 2}}, {0, {2, 1, 3}}});
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const auto expected = everything<double>(ops[i], Blocks(g, Serial{1}), {}, true);
      for (const AnyBackend& backend : backends)
        for (const Overlap overlap : {Overlap::off, Overlap::on}) {
          SCOPED_TRACE(backend.text() + " " + ops[i].text());
          const Blocks blocks(g, backend);
          PrepareOptions options;
          options.overlap = overlap;
          const auto got = everything<double>(ops[i], blocks, options, true);
          for (std::size_t o = 0; o < got.size(); ++o) {
            if (ops[i].node().kind == NodeKind::difference && o == 2) continue;  // upwind: reduce form
            EXPECT_TRUE(same_bits(got[o], expected[o])) << "output " << o;
          }
          blocks.synchronize();
          if (blocks.sim_world())
            for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
        }
    }
  }
}

/// The backend of ranks needs no MPI where there is one.
TEST(GridParity, AProcessByItselfIsARank) {
  const CartesianGrid g = make_grid({7, 6, 11}, "DNPPRD");
  for (const std::string spec : {"", "host:1x2", "sim:1"}) {
    const Blocks blocks(g, Mpi{single_process(), spec.empty() ? DeviceSet() : open_devices(spec)});
    for (const LeafCase& c : leaf_cases(g)) {
      const auto expected = everything<double>(c.op, Blocks(g, Serial{1}), {}, true);
      const auto got = everything<double>(c.op, blocks, {}, true);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << c.name << i;
    }
  }
}

/// Devices that do not reach each other's memory: every message goes by way of the host.
TEST(GridParity, StagedLinksHaveTheBitsOfOneBlockWithoutARace) {
  const CartesianGrid g = make_grid({9, 8, 11}, "DNPPPP");
  OpenOptions staged;
  staged.sim_faults = "link 0 1 no-peer; link 1 2 no-peer";
  const DeviceSet devices = open_devices("sim:3", staged);
  EXPECT_FALSE(devices.can_peer(0, 1));
  EXPECT_TRUE(devices.can_peer(0, 2));
  const Operator op = laplacian(g) + compose(derivative(g, 2), laplacian(g));
  const auto expected = everything<double>(op, Blocks(g, Serial{1}), {}, true);
  for (const int parts : {3, 5}) {
    const Blocks blocks(g, LocalDevices{devices, parts});
    const auto got = everything<double>(op, blocks, {}, true);
    for (std::size_t o = 0; o < got.size(); ++o) EXPECT_TRUE(same_bits(got[o], expected[o])) << o;
    blocks.synchronize();
    for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
  }
}

TEST(GridParity, ExchangesAreTheTable) {
  const CartesianGrid g = make_grid({6, 5, 12}, "DNPPRD");
  const Operator l = laplacian(g), d = diffusion(Coefficient::constant(g, 2)), s = scaling(3.0);
  struct Row {
    Operator op;
    int exchanges;
  };
  const std::vector<Row> table{{l, 1},
                               {d, 1},
                               {2.0 * l + 3.0 * d + identity(), 1},
                               {identity(), 0},
                               {s, 0},
                               {compose(l, l), 2},
                               {compose(l, s), 1},
                               {compose(s, l), 1},
                               {l + compose(d, l), 2},
                               {compose(d, l) + l, 2}};
  for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 1, 2}}})) {
    const Blocks blocks(g, p);
    Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
    for (const Row& row : table) {
      PreparedOperator<double> a(row.op, blocks);
      const int expected = blocks.partition().parts() == 1 ? 0 : row.exchanges;
      a.apply(y, x);
      EXPECT_EQ(a.stats().exchanges, expected) << row.op.text();
      a.reset_stats();
      a.apply_adjoint(y, x);
      EXPECT_EQ(a.stats().exchanges, expected) << "adjoint of " << row.op.text();
      EXPECT_EQ(a.stats().reduces, 0);
    }
  }
}

}  // namespace
}  // namespace shardwise::grid_test
