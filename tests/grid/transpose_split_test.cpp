// Adjoints by gathering: the cells inside, which ask no questions, and the shells around them, cell by cell,
// are together what one masked gather over the padded block is, bit for bit; each cell is written once.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "grid/backends.hpp"
#include "grid/cell_shell.hpp"
#include "grid/leaf_dispatch.hpp"
#include "grid/pointwise.hpp"
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

/// What a block's ghosts are folded with.
template <class T>
void set_folds(LeafCall<T>& call, const CartesianGrid& block) {
  for (int d = 0; d < block.dims(); ++d) {
    call.fold.wraps[d] = block.boundary(d, 0).kind == BoundaryKind::periodic;
    for (int side = 0; side < 2; ++side)
      call.fold.multiplier[d][side] = static_cast<T>(block.boundary(d, side).multiplier(1, block.spacing(d)));
  }
}

/// A reduce form as it is prepared where its gather does all.
template <class T>
std::unique_ptr<Term<T>> without_scratch(std::unique_ptr<Term<T>> term) {
  for (Term<T>* t = term.get(); t; t = t->a.get()) t->scratch.reset();
  return term;
}

/// A gather as a GPU runs it: columns of inner cells, and the shell around them.
template <class T>
void gather_by_columns(const LeafCall<T>& call) {
  dispatch_leaf(call, [&](const auto& body) {
    if constexpr (requires { body.inner_cells(); }) {
      const CellShell shell(call.box, body.inner_cells());
      for (std::int64_t j = shell.inner.lo[1]; j < shell.inner.hi[1]; ++j)
        for (std::int64_t i = shell.inner.lo[0]; i < shell.inner.hi[0]; ++i) {
          const std::int64_t middle = (shell.inner.lo[2] + shell.inner.hi[2]) / 2;
          body.column(i, j, shell.inner.lo[2], middle);
          body.column(i, j, middle, shell.inner.hi[2]);
        }
      using Body = std::decay_t<decltype(body)>;
      for (std::int64_t item = 0; item < shell.count(); ++item) ShellBody<Body>{shell, body}(item);
    } else {
      ADD_FAILURE() << "no gather";
    }
  });
}

/// The whole adjoint against its steps, one after the other over all cells: gather, fold, reduce, blend. And
/// the gather of a device, cell by cell and by columns, against that of rows.
template <class T>
void check_final(const std::vector<std::int64_t>& cells, const std::string& conditions, int halo,
                 const std::array<int, 3>& process_grid) {
  const CartesianGrid g = make_grid(cells, conditions, halo);
  const DeviceSet devices = open_devices("host:1x1");
  HereContext context(devices[0]);
  PrepareOptions options;
  options.adjoint = AdjointForm::reduce;
  for (const LeafCase& c : leaf_cases(g)) {
    if (c.name == "scaling field") continue;  // diagonal
    SCOPED_TRACE(c.name + " " + g.shape_text() + " " + conditions + " halo " + std::to_string(halo));
    const Blocks blocks(g, Serial{0, process_grid});
    PreparedOperator<T> a(c.op, blocks, options);
    PreparedState<T>& state = OperatorInternals::state(a);
    const Term<T>* term = state.transposed.get();
    T factor = 1;
    for (; term->kind == NodeKind::scaled; term = term->a.get()) factor = factor * term->factor;
    ASSERT_TRUE(term->transposed && term->is_stencil());
    Field<T> x = make_field(blocks, random_cells<T>(g, 2), "x");
    for (const T beta : {T(0), T(-0.5)}) {
      const T alpha = T(1.75);
      Field<T> got = make_field(blocks, random_cells<T>(g, 3), "got"),
               expected = make_field(blocks, random_cells<T>(g, 3), "expected"),
               by_cells = make_field(blocks, random_cells<T>(g, 3), "by cells"),
               by_columns = make_field(blocks, random_cells<T>(g, 3), "by columns");
      Field<T> z(blocks, "z", GhostLayout::padded), shell(blocks, "shell", GhostLayout::padded),
          column_shell(blocks, "shell of columns", GhostLayout::padded);
      blocks.synchronize();
      for (std::size_t b = 0; b < term->calls.size(); ++b) {
        LeafCall<T> call = term->calls[b];
        const FieldBlock<T>& to = z.storage().local[b];
        const CartesianGrid& block = blocks.local_grid(to.part);
        call.action = LeafAction::transpose;
        call.x = x.storage().local[b].cell();
        for (std::size_t d = 0; d < 2; ++d) call.y_stride[d] = to.layout.stride[d + 1];
        for (std::size_t d = 0; d < 3; ++d) {
          call.box.lo[d] = -to.layout.halo[d];
          call.box.hi[d] = to.layout.cells[d] + to.layout.halo[d];
        }
        const auto by_cell = [&] {
          dispatch_leaf(call, [&](const auto& body) {
            for (std::int64_t k = call.box.lo[2]; k < call.box.hi[2]; ++k)
              for (std::int64_t j = call.box.lo[1]; j < call.box.hi[1]; ++j)
                for (std::int64_t i = call.box.lo[0]; i < call.box.hi[0]; ++i) body.cell(i, j, k);
          });
        };
        call.y = to.cell();
        by_cell();
        call.y = shell.storage().local[b].cell();
        call.deep_y = by_cells.storage().local[b].cell();
        call.alpha = alpha * factor;
        call.beta = beta;
        const DeepCells deep = deep_cells(block, to.layout);
        for (int d = 0; d < 3; ++d) call.deep_margin[d] = deep.margin[d];
        set_folds(call, block);
        call.fold.rows = folds_rows(block);
        by_cell();
        call.y = column_shell.storage().local[b].cell();
        call.deep_y = by_columns.storage().local[b].cell();
        gather_by_columns(call);
      }
      HaloExchange<T> halo_of_all(blocks, GhostLayout::padded);
      fold_walls(blocks, z.storage(), false);
      halo_of_all.reduce(z.storage());
      enqueue_axpby(blocks, expected.storage(), z.storage(), alpha * factor, beta);
      fold_shell(blocks, shell.storage());
      halo_of_all.reduce(shell.storage());
      enqueue_blend_shell(blocks, by_cells.storage(), shell.storage(), alpha * factor, beta);
      fold_shell(blocks, column_shell.storage());
      halo_of_all.reduce(column_shell.storage());
      enqueue_blend_shell(blocks, by_columns.storage(), column_shell.storage(), alpha * factor, beta);
      a.apply_adjoint(got, x, alpha, beta);
      EXPECT_TRUE(same_bits(got.gather(), expected.gather()))
          << "differs by " << max_difference(got.gather(), expected.gather());
      EXPECT_TRUE(same_bits(by_cells.gather(), expected.gather()))
          << "differs by " << max_difference(by_cells.gather(), expected.gather());
      EXPECT_TRUE(same_bits(by_columns.gather(), expected.gather()))
          << "differs by " << max_difference(by_columns.gather(), expected.gather());
      if (blocks.partition().parts() > 1 || halo > 1) continue;
      // All ghosts folded at once: by rows as prepared operators would, and by columns.
      Field<T> whole = make_field(blocks, random_cells<T>(g, 3), "whole"),
               whole_columns = make_field(blocks, random_cells<T>(g, 3), "whole, by columns");
      blocks.synchronize();
      LeafCall<T> call = term->calls[0];
      call.action = LeafAction::transpose;
      call.x = x.storage().local[0].cell();
      call.deep_y = whole_columns.storage().local[0].cell();
      call.alpha = alpha * factor;
      call.beta = beta;
      set_folds(call, blocks.local_grid(0));
      call.fold.whole = true;
      gather_by_columns(call);
      EXPECT_TRUE(same_bits(whole_columns.gather(), expected.gather()))
          << "differs by " << max_difference(whole_columns.gather(), expected.gather());
      state.transposed = without_scratch(std::move(state.transposed));
      a.apply_adjoint(whole, x, alpha, beta);
      EXPECT_TRUE(same_bits(whole.gather(), expected.gather()))
          << "differs by " << max_difference(whole.gather(), expected.gather());
    }
  }
}

TEST(GridCellShell, HoldsEveryCellAroundTheHoleOnce) {
  const auto check_shell = [](const CellBox& outer, const CellBox& inner) {
    const CellShell shell(outer, inner);
    std::set<std::array<std::int64_t, 3>> cells;
    for (std::int64_t item = 0; item < shell.count(); ++item) {
      std::int64_t cell[3];
      shell.locate(item, cell);
      cells.insert({cell[0], cell[1], cell[2]});
      bool in_outer = true, in_inner = inner.count() > 0;
      for (int d = 0; d < 3; ++d) {
        in_outer = in_outer && cell[d] >= outer.lo[d] && cell[d] < outer.hi[d];
        in_inner = in_inner && cell[d] >= inner.lo[d] && cell[d] < inner.hi[d];
      }
      ASSERT_TRUE(in_outer && !in_inner) << item;
    }
    EXPECT_EQ(static_cast<std::int64_t>(cells.size()), outer.count() - inner.count());
  };
  const CellBox outer{{-1, -2, 0}, {5, 7, 4}};
  check_shell(outer, {{1, 0, 1}, {4, 5, 3}});
  check_shell(outer, {{-1, -2, 0}, {5, 7, 4}});
  check_shell(outer, {{-1, 0, 0}, {5, 5, 4}});
  check_shell(outer, {{2, -2, 3}, {3, 7, 4}});
  check_shell(outer, {{1, 3, 1}, {4, 3, 3}});
  check_shell(outer, {{2, 5, 1}, {1, 3, 3}});
  check_shell({{0, 0, 0}, {1, 1, 1}}, {});
}

TEST(GridTransposeSplit, GivesDeepCellsTheirFinalValueAtOnce) {
  for (const int halo : {1, 2}) {
    for (const std::string conditions : {"PP", "DN", "RD"}) {
      check_final<double>({11}, conditions, halo, {1, 1, 1});
      check_final<double>({11}, conditions, halo, {3, 1, 1});
    }
    for (const std::string conditions : {"PPDN", "RDPP", "NNDR"}) {
      check_final<double>({7, 12}, conditions, halo, {1, 1, 1});
      check_final<float>({7, 12}, conditions, halo, {1, 3, 1});
      check_final<double>({7, 12}, conditions, halo, {2, 2, 1});
    }
    for (const std::string conditions : {"DNPPRD", "PPNDPP", "NRDDPP"}) {
      check_final<double>({6, 7, 10}, conditions, halo, {1, 1, 2});
      check_final<float>({5, 8, 9}, conditions, halo, {1, 2, 2});
      check_final<double>({8, 5, 6}, conditions, halo, {2, 1, 1});
    }
  }
  check_final<double>({1, 5, 6}, "DNPPRD", 1, {1, 1, 2});
  check_final<double>({2, 3, 3}, "DNDDNR", 1, {1, 1, 1});
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
