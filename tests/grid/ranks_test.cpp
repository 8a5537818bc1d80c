// Operators on ranks: the bits of one process, transposes across ranks, what ranks agree on and refuse.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "grid/everything.hpp"
#include "grid/halo_exchange.hpp"
#include "grid/hooked_backend.hpp"
#include "grid/padded_fields.hpp"
#include "grid/rank_cases.hpp"
#include "shardwise/cluster/device_collectives.hpp"
#include "shardwise/grid/solvers.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

using shardwise::testing::agreed_error;

template <class T>
void check_parity(const std::vector<std::int64_t>& cells, const std::string& conditions, int halo) {
  const CartesianGrid g = make_grid(cells, conditions, halo);
  const Blocks one(g, Serial{1});
  for (const LeafCase& c : leaf_cases(g)) {
    const bool reduce = c.name.starts_with("upwind");
    const auto expected = everything<T>(c.op, one, {}, true);
    for (const Mpi& backend : rank_backends(g.dims(), false)) {
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
  check_parity<double>({13}, "DN", 1);
  check_parity<double>({11}, "PP", 2);
  check_parity<double>({9, 11}, "RDPP", 2);
  check_parity<float>({10, 13}, "DNRD", 1);
  check_parity<double>({7, 5, 11}, "DNPPRD", 1);
  check_parity<float>({6, 7, 10}, "PPNRPP", 1);
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

/// A message that begins one element beside where it should, and one whose size the receiver does not expect.
TEST(GridRanks, WrongMessagesAreSeen) {
  if (ranks().size() == 1) return;  // no message
  const CartesianGrid g = make_grid({6, 5, 12}, "DNPPRD");
  const auto expected = everything<double>(laplacian(g), Blocks(g, Serial{1}), {}, true);
  // Instead of the list's first of this rank's; the others go on as they are.
  const auto change_first = [](const std::function<void(Message&)>& change) {
    return [change](std::vector<Message> messages) {
      for (Message& m : messages)
        if (m.from) {
          change(m);
          break;
        }
      return messages;
    };
  };
  const auto shifted = everything<double>(
      laplacian(g), Blocks(g, Rewritten{rank_backend(), change_first([](Message& m) {
                                          m.from_begin +=
                                              m.from_begin == 0 ? sizeof(double) : -sizeof(double);
                                        })}),
      {}, true);
  EXPECT_FALSE(same_bits(shifted[0], expected[0]));
  if (on_gpus()) return;  // NCCL knows of no sizes
  const RankError shorter = agreed_error([&] {
    const auto change = change_first([](Message& m) {
      if (ranks().rank() == 1) m.bytes -= sizeof(double);
    });
    (void)everything<double>(laplacian(g), Blocks(g, Rewritten{rank_backend(), change}), {}, true);
  });
  EXPECT_EQ(shorter.error_class(), ErrorClass::internal);
  EXPECT_NE(std::string(shorter.what()).find("rank 1 sent fewer bytes"), std::string::npos) << shorter.what();
  // Messages that arrive in another order than they were posted: two of one size that change places.
  const auto swapped = [](std::vector<Message> messages) {
    std::vector<Message*> sent;
    for (Message& m : messages)
      if (m.from) sent.push_back(&m);
    if (sent.size() == 2) std::swap(sent[0]->from_begin, sent[1]->from_begin);
    return messages;
  };
  const auto other =
      everything<double>(laplacian(g), Blocks(g, Rewritten{rank_backend(), swapped}), {}, true);
  EXPECT_EQ(same_bits(other[0], expected[0]), ranks().size() == 2) << "ranks between two others send two";
  const auto reversed = [](std::vector<Message> messages) {
    std::reverse(messages.begin(), messages.end());
    return messages;
  };
  const auto same =
      everything<double>(laplacian(g), Blocks(g, Rewritten{rank_backend(), reversed}), {}, true);
  EXPECT_TRUE(same_bits(same[0], expected[0])) << "messages are known by their faces, not by their order";
}

/// Bytes of a step: the planes beside the cuts, once for each exchange; as the transport is given them, and
/// as the communicator moves them. Neither the number of steps nor what lies in the cells matters.
TEST(GridRanks, BytesOfAStepAreThoseOfThePlan) {
  const auto wire = [] {
    for (const RankTraffic& t : ranks().traffic())
      if (t.what == "grid halo") return std::array{t.bytes_out, t.bytes_in};
    return std::array{std::uint64_t{0}, std::uint64_t{0}};
  };
  PrepareOptions reduce_form;
  reduce_form.adjoint = AdjointForm::reduce;
  for (const int halo : {1, 2})
    for (const Mpi& backend : rank_backends(3, false)) {
      const CartesianGrid g = make_grid({8, 9, 12}, "DNPPRD", halo);
      const Operator l = laplacian(g);
      for (const Operator& op : {l, scaling(2.0), compose(l, l), 2.0 * l + compose(derivative(g, 2), l),
                                 derivative(g, 2, Difference::upwind_minus)}) {
        SCOPED_TRACE(op.text() + " halo " + std::to_string(halo) + " " + text_of(backend));
        const auto given = std::make_shared<std::array<std::uint64_t, 2>>();
        const MessageHook count{[given](BlockTransport&, const Message& m, OrderedQueue&) {
                                  (*given)[m.from ? 0 : 1] += m.bytes;
                                },
                                {},
                                {}};
        const Blocks blocks(g, Hooked<Mpi>{backend, count});
        PreparedOperator<double> owner(op, blocks), reduce(op, blocks, reduce_form);
        Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
        const CartesianGrid& mine = blocks.local_grid(ranks().rank());
        std::uint64_t planes = 0;
        for (int d = 0; d < 3; ++d)
          for (int side = 0; side < 2; ++side)
            if (blocks.partition().neighbour(ranks().rank(), d, side) >= 0)
              planes += static_cast<std::uint64_t>(mine.cells((d + 1) % 3) * mine.cells((d + 2) % 3) * halo) *
                        sizeof(double);
        const bool by_nccl = blocks.transport().find("nccl") != std::string::npos;
        for (PreparedOperator<double>* a : {&owner, &reduce}) {
          a->reset_stats();
          *given = {0, 0};
          const auto before = wire();
          for (int i = 0; i < 3; ++i) a->apply(y, x);
          for (int i = 0; i < 4; ++i) a->apply_adjoint(y, x);
          blocks.synchronize();
          const auto exchanges = static_cast<std::uint64_t>(a->stats().exchanges + a->stats().reduces);
          EXPECT_EQ((*given)[0], exchanges * planes);
          EXPECT_EQ((*given)[1], exchanges * planes);
          // NCCL's bytes are not the communicator's.
          if (by_nccl) continue;
          EXPECT_EQ(wire()[0] - before[0], (*given)[0]);
          EXPECT_EQ(wire()[1] - before[1], (*given)[1]);
        }
        if (ranks().size() > 1 && op.node().kind != NodeKind::scaling) {
          EXPECT_GT((*given)[0], 0u);
        }
      }
    }
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

/// A rank that forgets a message: its neighbour waits for it, and all others for the neighbour. The run is
/// ended within the deadline, which a test of its own looks at from outside (grid_mpi_tests.forgotten).
TEST(DISABLED_GridRanks, AForgottenMessageEndsTheRun) {
  const CartesianGrid g = make_grid({6, 5, 12}, "DNPPRD");
  MessageHook forget;
  forget.instead = [](BlockTransport&, const Message& m, OrderedQueue&) {
    return ranks().rank() == 1 && m.from && m.target == 0;
  };
  const Blocks blocks(g, Hooked<Mpi>{rank_backend(), forget});
  PreparedOperator<double> a(laplacian(g), blocks);
  Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
  a.apply(y, x);
  (void)y.gather();
}

/// The sum of NCCL, as maps use it: rank 0's GPU waits for one that never comes.
TEST(GridRanks, AWaitForTheSumOfGpusHearsOfAFault) {
  if (!on_gpus() || ranks().size() == 1) return;  // NCCL alone; cluster_nccl_tests has the rest
  const std::unique_ptr<Stream> stream = rank_device()[0].create_stream("sums");
  for (int again = 0; again < 2; ++again) {
    std::string why;
    const std::shared_ptr<DeviceCollectives> link = connect_devices(ranks(), *stream, &why);
    if (!link) {
      std::printf("no NCCL: %s\n", why.c_str());
      return;
    }
    Memory words(*stream, std::uint64_t{64} << 20, "words");
    const auto sum = [&] {
      Operation operation;
      operation.name = "sum";
      operation.accesses = {words.access(AccessMode::write)};
      operation.body = [&](LaunchContext& context) {
        link->sum_to_rank_0(context, static_cast<std::uint64_t*>(words.data()), words.bytes() / 8);
      };
      stream->enqueue(std::move(operation));
      stream->synchronize();
      link->check();
    };
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const RankError error = agreed_error([&] {
      sum();
      if (ranks().rank() + 1 == ranks().size()) throw Error(ErrorClass::data, "no such file");
      sum();
      ADD_FAILURE() << "a sum without the last rank";
    });
    EXPECT_NE(std::string(error.what()).find("no such file"), std::string::npos) << error.what();
    EXPECT_EQ(error.rank(), ranks().size() - 1);
    EXPECT_LT(seconds(), 10);
    std::printf("rank %d: the wait for %s ended %.2f s after it began\n", ranks().rank(),
                link->name().c_str(), seconds());
  }
}

TEST(GridRanks, AFaultOnOneRankEndsAll) {
  if (ranks().size() == 1) return;
  const CartesianGrid g = make_grid({8, 6, 12}, "DNPPRD");
  const int last = ranks().size() - 1;
  const auto blocks_of = [&](const char* what) {
    return Blocks(g, Mpi{world()->duplicate(what), rank_device()});
  };
  // In place of an exchange, which the neighbour waits for: in a message, or on its GPU. What it was
  // connected by is connected again.
  for (const bool sums : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    const RankError missing = agreed_error([&] {
      const Blocks blocks = blocks_of("exchange that fails");
      PreparedOperator<double> a(laplacian(g), blocks);
      Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
      a.apply(y, x);
      blocks.synchronize();
      if (ranks().rank() == last) throw Error(ErrorClass::data, "no such file");
      a.apply(y, x);
      if (sums) (void)dot(y, x);
      blocks.synchronize();
      if (sums || ranks().rank() == last - 1) ADD_FAILURE() << "an exchange without the last rank";
    });
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
    EXPECT_NE(std::string(missing.what()).find("no such file"), std::string::npos) << missing.what();
    EXPECT_EQ(missing.rank(), last);
    EXPECT_EQ(missing.error_class(), ErrorClass::data);
  }
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
