// What ranks refuse alike, and how a fault on one of them ends all.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>

#include "grid/everything.hpp"
#include "grid/hooked_backend.hpp"
#include "grid/rank_cases.hpp"
#include "shardwise/cluster/device_collectives.hpp"
#include "shardwise/grid/solvers.hpp"

namespace shardwise::grid_test {
namespace {

using shardwise::testing::agreed_error;

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
