// Messages between ranks: how many bytes, in what order, and what happens to wrong ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "grid/everything.hpp"
#include "grid/hooked_backend.hpp"
#include "grid/rank_cases.hpp"

namespace shardwise::grid_test {
namespace {

using shardwise::testing::agreed_error;

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

/// Pinned memory that messages pass through grows with them, while the device may still read what was there.
TEST(GridRanks, StagesGrowUnderWay) {
  const CartesianGrid g = make_grid({16, 17, 12}, "DNPPRD");
  const auto expected_float = everything<float>(laplacian(g), Blocks(g, Serial{1}), {}, false);
  const auto expected = everything<double>(laplacian(g), Blocks(g, Serial{1}), {}, false);
  const DeviceSet device = on_gpus() ? rank_device() : open_devices("host:1x1");
  for (int again = 0; again < 10; ++again) {
    const Blocks blocks(
        g, Mpi{world(), device, {}, false, {RankRoute::staged, RankRoute::staged, RankRoute::staged}});
    PreparedOperator<float> small(laplacian(g), blocks);
    PreparedOperator<double> large(laplacian(g), blocks);
    Field<float> x = make_field(blocks, random_cells<float>(g, 1), "x"), y(blocks, "y");
    Field<double> u = make_field(blocks, random_cells<double>(g, 1), "u"), v(blocks, "v");
    small.apply(y, x);
    large.apply(v, u);  // nobody has waited
    EXPECT_TRUE(same_bits(y.gather(), expected_float[0]));
    EXPECT_TRUE(same_bits(v.gather(), expected[0]));
  }
}

}  // namespace
}  // namespace shardwise::grid_test
