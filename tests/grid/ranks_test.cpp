// Operators on ranks: the bits of one process, transposes across ranks, what ranks agree on and refuse.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "grid/everything.hpp"
#include "grid/halo_exchange.hpp"
#include "grid/hooked_backend.hpp"
#include "grid/padded_fields.hpp"
#include "grid/rank_cases.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

using shardwise::testing::agreed_error;

template <class T>
void check_parity(const std::vector<std::int64_t>& cells, const std::string& conditions, int halo,
                  bool all_devices) {
  const CartesianGrid g = make_grid(cells, conditions, halo);
  const Blocks one(g, Serial{1});
  for (const LeafCase& c : leaf_cases(g)) {
    const bool reduce = c.name.starts_with("upwind");
    const auto expected = everything<T>(c.op, one, {}, true);
    for (const Mpi& backend : rank_backends(g.dims(), all_devices)) {
      SCOPED_TRACE(c.name + " " + conditions + " " + text_of(backend));
      for (const Overlap overlap : {Overlap::off, Overlap::on}) {
        const Blocks blocks(g, backend);
        ASSERT_EQ(blocks.local_parts(), std::vector<int>{ranks().rank()});
        PrepareOptions options;
        options.overlap = overlap;
        const auto got = everything<T>(c.op, blocks, options, true);
        ASSERT_NO_FATAL_FAILURE(expect_everything(got, expected, reduce));
        if (blocks.sim_world())
          for (const RaceReport& race : blocks.sim_world()->races()) ADD_FAILURE() << race.text;
      }
    }
  }
}

TEST(GridRanks, HaveTheBitsOfOneProcess) {
  const std::string all = Blocks(make_grid({13}, "DN"), rank_backend()).transport();
  if (ranks().rank() == 0) std::printf("%s\n", all.c_str());
  check_parity<double>({13}, "DN", 1, false);
  check_parity<double>({11}, "PP", 2, false);
  check_parity<double>({9, 11}, "RDPP", 2, false);
  check_parity<float>({10, 13}, "DNRD", 1, false);
  check_parity<double>({7, 5, 11}, "DNPPRD", 1, true);
  check_parity<float>({6, 7, 10}, "PPNRPP", 1, false);
}

TEST(GridRanks, LayoutsAndReduceFormsAgreeWithOneProcess) {
  const CartesianGrid g = make_grid({8, 6, 11}, "DNPPRD");
  PrepareOptions reduce;
  reduce.adjoint = AdjointForm::reduce;
  for (const LeafCase& c : leaf_cases(g)) {
    const auto expected = everything<double>(c.op, Blocks(g, Serial{1}), {}, true);
    for (const GhostLayout layout : {GhostLayout::padded, GhostLayout::pitched}) {
      const auto got = everything<double>(c.op, Blocks(g, rank_backend(), layout), {}, true);
      for (std::size_t i = 0; i < got.size(); ++i)
        if (!c.name.starts_with("upwind") || i != 2) {
          EXPECT_TRUE(same_bits(got[i], expected[i])) << c.name << " " << to_string(layout) << " " << i;
        }
    }
    // dist_reduce: against one process to rounding, against itself in bits.
    for (const Mpi& backend : rank_backends(3, false)) {
      const Blocks blocks(g, backend);
      const auto first = everything<double>(c.op, blocks, reduce, false);
      EXPECT_LT(max_difference(first[2], expected[2]), 1e-11) << c.name << " " << text_of(backend);
      EXPECT_TRUE(same_bits(everything<double>(c.op, blocks, reduce, false)[2], first[2])) << c.name;
    }
  }
}

TEST(GridRanks, TreesExchangeAsTheTableSaysAndHaveTheBitsOfOneProcess) {
  const CartesianGrid g = make_grid({6, 8, 12}, "DNPPRD");
  const Operator l = laplacian(g), d = diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3))),
                 s = scaling(3.0);
  struct Row {
    Operator op;
    int exchanges;
  };
  const std::vector<Row> table{
      {l, 1},
      {2.0 * l + 3.0 * d + identity(), 1},
      {identity(), 0},
      {compose(l, l), 2},
      {compose(l, s), 1},
      {compose(s, l), 1},
      {l + compose(d, l), 2},
      {2.0 * l + compose(derivative(g, 2), l) - adjoint(compose(derivative(g, 0), s)), 2}};
  const Blocks one(g, Serial{1});
  for (const Row& row : table) {
    const auto expected = everything<double>(row.op, one, {}, true);
    for (const Mpi& backend : rank_backends(3, false)) {
      SCOPED_TRACE(row.op.text() + " " + text_of(backend));
      const Blocks blocks(g, backend);
      const auto got = everything<double>(row.op, blocks, {}, true);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], expected[i])) << i;
      PreparedOperator<double> a(row.op, blocks);
      Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
      a.reset_stats();
      a.apply(y, x);
      EXPECT_EQ(a.stats().exchanges, ranks().size() == 1 ? 0 : row.exchanges);
    }
  }
}

std::vector<double> contents(const Field<double>& field) {
  field.blocks().synchronize();
  return field.memory(ranks().rank());
}

TEST(GridRanks, ReduceIsTheTransposeOfScatterAcrossRanks) {
  for (const std::string conditions : {"DNDNDN", "PPPPPP", "PPDDRN"})
    for (const int h : {1, 2})
      for (const Mpi& backend : rank_backends(3)) {
        const CartesianGrid g = make_grid({8, 8, 10}, conditions, h);
        const Blocks blocks(g, backend);
        Field<double> x = random_padded(blocks, 1), y = random_padded(blocks, 2);
        const std::vector<double> x0 = contents(x), y0 = contents(y);
        HaloExchange<double> halo(blocks, GhostLayout::padded);
        halo.scatter(x.storage());
        halo.reduce(y.storage());
        const double left = rank_sum(inner(contents(x), y0)), right = rank_sum(inner(x0, contents(y)));
        const double size = std::sqrt(rank_sum(inner(x0, x0)) * rank_sum(inner(y0, y0)));
        EXPECT_NEAR(left, right, 1e-13 * size) << conditions << " halo " << h << " " << text_of(backend);
      }
}

TEST(GridRanks, EveryGhostIsTheRightCell) {
  for (const std::string conditions : {"DNDNDN", "PPPPPP"})
    for (const int h : {1, 2})
      for (const Mpi& backend : rank_backends(3, false)) {
        const CartesianGrid g = make_grid({8, 9, 10}, conditions, h);
        const Blocks blocks(g, backend);
        std::vector<double> numbers(static_cast<std::size_t>(g.cell_count()));
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
        Field<double> field(blocks, "numbers", GhostLayout::padded);
        field.scatter_global(numbers);
        EXPECT_TRUE(same_bits(field.gather(), numbers));
        const std::vector<double> on_root = field.gather(0);
        EXPECT_TRUE(ranks().rank() == 0 ? same_bits(on_root, numbers) : on_root.empty());
        HaloExchange<double>(blocks, GhostLayout::padded).scatter(field.storage());
        const std::vector<double> memory = contents(field);
        const CartesianGrid& b = blocks.local_grid(ranks().rank());
        const BlockLayout& l = field.layout(ranks().rank());
        for (int d = 0; d < 3; ++d)
          for (int side = 0; side < 2; ++side) {
            if (b.boundary(d, side).kind != BoundaryKind::interface) continue;
            for (std::int64_t layer = 0; layer < h; ++layer)
              for (std::int64_t q = 0; q < b.cells((d + 1) % 3); ++q)
                for (std::int64_t r = 0; r < b.cells((d + 2) % 3); ++r) {
                  std::int64_t p[3], global[3];
                  p[d] = side == 0 ? -1 - layer : b.cells(d) + layer;
                  p[(d + 1) % 3] = q;
                  p[(d + 2) % 3] = r;
                  std::int64_t at = l.origin;
                  for (int e = 0; e < 3; ++e) {
                    global[e] = (b.first(e) + p[e] + g.cells(e)) % g.cells(e);
                    at += p[e] * l.stride[static_cast<std::size_t>(e)];
                  }
                  ASSERT_EQ(
                      memory[static_cast<std::size_t>(at)],
                      static_cast<double>(global[0] + g.cells(0) * (global[1] + g.cells(1) * global[2])))
                      << text_of(backend) << " dimension " << d << " side " << side;
                }
          }
      }
}

/// <L u, w> with the operator, its adjoint, and d/dkappa: owner form in bits, scatter form to rounding, both
/// against a difference quotient.
TEST(GridRanks, TheCoefficientGradientIsOneProcess) {
  const CartesianGrid g = make_grid({8, 6, 10}, "DNPPRD");
  const std::vector<double> kappa = random_cells<double>(g, 90, 0.4, 2);
  const auto loss = [&](const Blocks& blocks, const std::vector<double>& k) {
    PreparedOperator<double> a(diffusion(Coefficient(g, k), Mean::harmonic), blocks);
    Field<double> u = make_field(blocks, random_cells<double>(g, 1), "u"), out(blocks, "out");
    a.apply(out, u);
    return dot(out, make_field(blocks, random_cells<double>(g, 2), "w"));
  };
  const auto gradients = [&](const Blocks& blocks) {
    PreparedOperator<double> a(diffusion(Coefficient(g, kappa), Mean::harmonic), blocks);
    Field<double> u = make_field(blocks, random_cells<double>(g, 1), "u"),
                  w = make_field(blocks, random_cells<double>(g, 2), "w"), out(blocks, "out");
    std::vector<std::vector<double>> result;
    a.coefficient_gradient(out, w, u);
    result.push_back(out.gather());
    a.coefficient_gradient_scatter(out, w, u);
    result.push_back(out.gather());
    // New values are exchanged once, and give what they give from the start.
    a.update_coefficient(make_field(blocks, random_cells<double>(g, 91, 0.4, 2), "kappa"));
    a.apply(out, u);
    result.push_back(out.gather());
    return result;
  };
  const auto expected = gradients(Blocks(g, Serial{1}));
  for (const Mpi& backend : rank_backends(3, false)) {
    const Blocks blocks(g, backend);
    const auto got = gradients(blocks);
    EXPECT_TRUE(same_bits(got[0], expected[0])) << text_of(backend);
    EXPECT_LT(max_difference(got[1], expected[0]), 1e-13 * max_abs(expected[0])) << text_of(backend);
    EXPECT_TRUE(same_bits(got[2], expected[2])) << text_of(backend);
  }
  const Blocks blocks(g, rank_backend());
  for (const std::size_t cell : {std::size_t{0}, std::size_t{77}, kappa.size() - 1}) {
    std::vector<double> up = kappa, down = kappa;
    const double step = 1e-4;
    up[cell] += step, down[cell] -= step;
    EXPECT_NEAR((loss(blocks, up) - loss(blocks, down)) / (2 * step), expected[0][cell],
                1e-5 * max_abs(expected[0]));
  }
}

/// Passes the whole list on, with one element of what this rank sends first shifted by one.
class ShiftingTransport final : public BlockTransport {
 public:
  explicit ShiftingTransport(std::unique_ptr<BlockTransport> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  std::vector<int> local_parts() const override { return inner_->local_parts(); }
  Stream& compute(int part) override { return inner_->compute(part); }
  Stream& transfer(int part) override { return inner_->transfer(part); }
  void move(const std::vector<Message>& messages, OrderedQueue& queue) override {
    std::vector<Message> shifted = messages;
    for (Message& m : shifted)
      if (m.from) {
        m.from_begin += m.from_begin == 0 ? sizeof(double) : -sizeof(double);
        break;
      }
    inner_->move(shifted, queue);
  }
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override { return inner_->host_memory(bytes); }
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override {
    return inner_->gather_words(words);
  }
  bool agree(bool yes) override { return inner_->agree(yes); }
  int processes() const override { return inner_->processes(); }
  std::vector<std::vector<std::byte>> gather_bytes(std::span<const std::byte> bytes, int root) override {
    return inner_->gather_bytes(bytes, root);
  }

 private:
  std::unique_ptr<BlockTransport> inner_;
};
struct Shifting {
  Mpi backend;
  PartitionRequest request() const { return backend.request(); }
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const {
    return std::make_unique<ShiftingTransport>(backend.connect(partition));
  }
};
static_assert(DistributedBackend<Shifting>);

TEST(GridRanks, AShiftedMessageIsSeen) {
  if (ranks().size() == 1) return;  // no message
  const CartesianGrid g = make_grid({6, 5, 12}, "DNPPRD");
  const auto expected = everything<double>(laplacian(g), Blocks(g, Serial{1}), {}, true);
  const auto got = everything<double>(laplacian(g), Blocks(g, Shifting{rank_backend()}), {}, true);
  EXPECT_FALSE(same_bits(got[0], expected[0]));
}

TEST(GridRanks, TrafficIsOnePlaneAFaceAndApply) {
  const CartesianGrid g = make_grid({6, 5, 12}, "DNDNDN");
  const Blocks blocks(g, rank_backend());
  PreparedOperator<double> a(laplacian(g), blocks);
  Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
  const auto halo_bytes = [] {
    for (const RankTraffic& t : ranks().traffic())
      if (t.what == "grid halo") return t.bytes_out;
    return std::uint64_t{0};
  };
  const std::uint64_t before = halo_bytes();
  for (int i = 0; i < 7; ++i) a.apply(y, x);
  blocks.synchronize();
  // NCCL's bytes are not the communicator's.
  if (blocks.transport().find("nccl") != std::string::npos) return;
  const int faces = ranks().size() == 1 ? 0 : (ranks().rank() > 0) + (ranks().rank() + 1 < ranks().size());
  EXPECT_EQ(halo_bytes() - before, 7u * 6 * 5 * sizeof(double) * static_cast<unsigned>(faces));
}

TEST(GridRanks, RefuseAlikeWhatTheyCannotDo) {
  const CartesianGrid g = make_grid({8, 6, 12}, "DNPPRD");
  const auto refused = [&](GridErrorCode code, const Mpi& backend, const std::string& words) {
    try {
      Blocks(g, backend);
      ADD_FAILURE() << "accepted: " << text_of(backend);
    } catch (const GridError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
    ranks().barrier("refused");
  };
  const std::array<RankRoute, 3> nccl{RankRoute::nccl, RankRoute::nccl, RankRoute::nccl};
  if (!on_gpus()) refused(GridErrorCode::unavailable, {world(), {}, {}, false, nccl}, "nccl is for GPUs");
  refused(GridErrorCode::too_many_devices, {world(), open_devices("host:2x1")}, "one device");
  refused(GridErrorCode::bad_part_count, {world(), rank_device(), {5, 1, 1}}, "5");
  if (ranks().size() > 1) {
    std::array<RankRoute, 3> own{};
    if (ranks().rank() == 1) own[1] = RankRoute::staged;
    refused(GridErrorCode::bad_argument, {world(), rank_device(), {}, false, own}, "different routes");
  }
}

TEST(GridRanks, AFaultOnOneRankEndsAll) {
  if (ranks().size() == 1) return;
  const CartesianGrid g = make_grid({8, 6, 12}, "DNPPRD");
  const int last = ranks().size() - 1;
  // A wait for NCCL hears of no fault: the communicator's busy_deadline_s ends it.
  std::array<RankRoute, 3> route{};
  if (on_gpus()) route.fill(RankRoute::staged);
  const auto blocks_of = [&](const char* what) {
    return Blocks(g, Mpi{world()->duplicate(what), rank_device(), {}, false, route});
  };
  // In place of an exchange, which the neighbour waits for.
  const RankError missing = agreed_error([&] {
    const Blocks blocks = blocks_of("exchange that fails");
    PreparedOperator<double> a(laplacian(g), blocks);
    Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
    if (ranks().rank() == last) throw Error(ErrorClass::data, "no such file");
    a.apply(y, x);
    (void)dot(y, x);
  });
  EXPECT_NE(std::string(missing.what()).find("no such file"), std::string::npos) << missing.what();
  EXPECT_EQ(missing.rank(), last);
  EXPECT_EQ(missing.error_class(), ErrorClass::data);
  // What depends on one rank's cells: a diagonal that is 0 there.
  std::vector<double> factor(static_cast<std::size_t>(g.cell_count()), 1.0);
  factor.back() = 0;
  const RankError zero = agreed_error([&] {
    const Blocks blocks = blocks_of("diagonal that fails");
    PreparedOperator<double> a(scaling(Coefficient(g, factor)), blocks);
    Field<double> u(blocks, "u"), f = make_field(blocks, random_cells<double>(g, 1), "f");
    u.fill(0);
    SolverOptions<double> options;
    options.jacobi = true;
    conjugate_gradient(a, u, f, options);
  });
  EXPECT_NE(std::string(zero.what()).find("diagonal without zeros"), std::string::npos) << zero.what();
  EXPECT_EQ(zero.rank(), last);
  // Ranks that do not do the same are told so.
  const RankError order = agreed_error([&] {
    const Blocks blocks = blocks_of("order that fails");
    Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x");
    if (ranks().rank() == 0)
      (void)dot(x, x);
    else
      (void)x.gather();
  });
  EXPECT_EQ(order.error_class(), ErrorClass::internal) << order.what();
}

}  // namespace
}  // namespace shardwise::grid_test
