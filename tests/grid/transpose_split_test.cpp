// Adjoints by gathering: the cells inside, which ask no questions, and the shells around them, cell by cell,
// are together what one masked gather over the padded block is, bit for bit; each cell is written once.

#include <gtest/gtest.h>

#include <cmath>

#include "grid/grid_cases.hpp"
#include "grid/leaf_dispatch.hpp"
#include "grid/prepared_state.hpp"

namespace shardwise::grid_test {
namespace {

/// Runs pieces on the calling thread.
class HereContext final : public LaunchContext {
 public:
  explicit HereContext(Device& device) : device_(device) {}
  Device& device() override { return device_; }
  void parallel_for(std::int64_t count, std::int64_t grain, const RangeFunction& function) override {
    for (std::int64_t begin = 0; begin < count; begin += grain)
      function(begin, std::min(count, begin + grain));
  }
  void execute(const std::function<void()>& function) override { function(); }

 private:
  Device& device_;
};

template <class T>
void check(const std::vector<std::int64_t>& cells, const std::string& conditions, int halo) {
  const CartesianGrid g = make_grid(cells, conditions, halo);
  const DeviceSet devices = open_devices("host:1x1");
  HereContext context(devices[0]);
  PrepareOptions options;
  options.adjoint = AdjointForm::reduce;
  for (const LeafCase& c : leaf_cases(g))
    for (const int parts : {1, 3}) {
      if (c.name == "scaling field") continue;  // diagonal
      SCOPED_TRACE(c.name + " " + g.shape_text() + " " + conditions + " halo " + std::to_string(halo) +
                   " parts " + std::to_string(parts));
      const Blocks blocks(g, Serial{parts});
      PreparedOperator<T> a(c.op, blocks, options);
      const Term<T>* term = OperatorInternals::state(a).transposed.get();
      while (term->kind == NodeKind::scaled) term = term->a.get();
      ASSERT_TRUE(term->transposed && term->is_stencil());
      Field<T> x = make_field(blocks, random_cells<T>(g, 2), "x");
      Field<T> split(blocks, "split", GhostLayout::padded), masked(blocks, "masked", GhostLayout::padded);
      blocks.synchronize();
      for (std::size_t b = 0; b < term->calls.size(); ++b) {
        const auto call_on = [&](Field<T>& z) {
          const FieldBlock<T>& to = z.storage().local[b];
          LeafCall<T> call = term->calls[b];
          call.action = LeafAction::transpose;
          call.x = x.storage().local[b].cell();
          call.y = to.cell();
          for (std::size_t d = 0; d < 2; ++d) call.y_stride[d] = to.layout.stride[d + 1];
          for (std::size_t d = 0; d < 3; ++d) {
            call.box.lo[d] = -to.layout.halo[d];
            call.box.hi[d] = to.layout.cells[d] + to.layout.halo[d];
          }
          return call;
        };
        launch_leaf(context, call_on(split));
        const LeafCall<T> call = call_on(masked);
        std::int64_t calls = 0;
        dispatch_leaf(call, [&](const auto& body) {
          for (std::int64_t k = call.box.lo[2]; k < call.box.hi[2]; ++k)
            for (std::int64_t j = call.box.lo[1]; j < call.box.hi[1]; ++j)
              for (std::int64_t i = call.box.lo[0]; i < call.box.hi[0]; ++i, ++calls) body.cell(i, j, k);
        });
        EXPECT_EQ(calls, call.box.count());
        const int part = blocks.local_parts()[b];
        const std::vector<T> got = split.memory(part), expected = masked.memory(part);
        for (const T value : got) ASSERT_FALSE(std::isnan(value)) << "a cell was left out";
        EXPECT_TRUE(same_bits(got, expected)) << "differs by " << max_difference(got, expected);
        // Any part of the rows writes its own cells and no other.
        for (std::int64_t end = call.box.lo[0]; end <= call.box.hi[0]; ++end)
          for (const bool first : {false, true}) {
            Field<T> some(blocks, "some", GhostLayout::padded);
            blocks.synchronize();
            LeafCall<T> piece = call_on(some);
            (first ? piece.box.hi : piece.box.lo)[0] = end;
            launch_leaf(context, piece);
            const std::vector<T> written = some.memory(part);
            const BlockLayout& l = some.layout(part);
            for (std::size_t at = 0; at < written.size(); ++at) {
              const std::int64_t i = static_cast<std::int64_t>(at) % l.stride[1] - l.halo[0];
              if (i >= piece.box.lo[0] && i < piece.box.hi[0])
                ASSERT_EQ(written[at], expected[at]) << at;
              else
                ASSERT_TRUE(std::isnan(written[at])) << at;
            }
          }
      }
    }
}

TEST(GridTransposeSplit, HasTheBitsOfTheMaskedGather) {
  for (const int halo : {1, 2}) {
    for (const std::string conditions : {"PP", "DD", "DN", "RD", "NN"}) check<double>({11}, conditions, halo);
    check<double>({7, 10}, "PPDN", halo);
    check<double>({6, 7}, "RDPP", halo);
    check<float>({5, 6, 7}, "DNPPRD", halo);
    check<double>({4, 3, 8}, "PPNDPP", halo);
  }
  check<double>({2, 1, 3}, "DNDDNR", 1);  // no cell inside
}

}  // namespace
}  // namespace shardwise::grid_test
