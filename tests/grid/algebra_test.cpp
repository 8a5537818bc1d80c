// Trees, user leaves, derivatives with respect to kappa, updates, a backend of one's own.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "grid/backends.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::grid_test {
namespace {

struct Tree {
  Operator op;
  Dense dense;
};

/// A random tree with its dense twin.
Tree random_tree(const std::vector<LeafCase>& leaves, const CartesianGrid& g, std::mt19937& random, int depth,
                 int& compositions) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int what = depth == 0 ? 0 : pick(6);
  if (what == 1 || what == 2) {
    const Tree a = random_tree(leaves, g, random, depth - 1, compositions);
    const Tree b = random_tree(leaves, g, random, depth - 1, compositions);
    return {a.op + b.op, combination(1, a.dense, 1, b.dense)};
  }
  if (what == 3) {
    const double f = 0.5 + pick(5);
    const Tree a = random_tree(leaves, g, random, depth - 1, compositions);
    return {f * a.op, combination(f, a.dense, 0, a.dense)};
  }
  if (what == 4 && compositions < 3) {
    ++compositions;
    const Tree a = random_tree(leaves, g, random, depth - 1, compositions);
    const Tree b = random_tree(leaves, g, random, depth - 1, compositions);
    return {compose(a.op, b.op), product(a.dense, b.dense)};
  }
  if (what == 5) {
    const Tree a = random_tree(leaves, g, random, depth - 1, compositions);
    Dense t = transpose(a.dense);  // its lift is 0
    return {adjoint(a.op), t};
  }
  const int leaf = pick(static_cast<int>(leaves.size()) + 2);
  if (leaf == static_cast<int>(leaves.size())) {
    Dense m(g.cell_count());
    for (std::int64_t i = 0; i < m.n; ++i) m.at(i, i) = 1;
    return {identity(), m};
  }
  if (leaf > static_cast<int>(leaves.size())) {
    Dense m(g.cell_count());
    for (std::int64_t i = 0; i < m.n; ++i) m.at(i, i) = -1.5;
    return {scaling(-1.5), m};
  }
  const LeafCase& c = leaves[static_cast<std::size_t>(leaf)];
  return {c.op, c.dense};
}

bool has_reduce_leaf(const Operator& op) {
  const OperatorNode& n = op.node();
  if (n.kind == NodeKind::difference &&
      (n.difference == Difference::upwind_minus || n.difference == Difference::upwind_plus))
    return true;
  for (const Operator& c : n.children)
    if (has_reduce_leaf(c)) return true;
  return false;
}

/// Adjoints twice over cancel without a word on lifts: such trees are not compared there.
bool nested_adjoint(const Operator& op, int adjoints = 0) {
  const int inside = adjoints + (op.node().kind == NodeKind::adjoint ? 1 : 0);
  if (inside > 1) return true;
  for (const Operator& c : op.node().children)
    if (nested_adjoint(c, inside)) return true;
  return false;
}

TEST(GridAlgebra, RandomTreesMatchDenseMatricesOnEveryPartition) {
  std::mt19937 random(20);
  const std::vector<std::string> conditions{"DNPP", "RDNN", "PPDD", "NRDN"};
  for (int round = 0; round < (thorough() ? 200 : 40); ++round) {
    const CartesianGrid g =
        make_grid({7, 6}, conditions[static_cast<std::size_t>(round) % conditions.size()]);
    int compositions = 0;
    const Tree tree = random_tree(leaf_cases(g), g, random, 4, compositions);
    SCOPED_TRACE("round " + std::to_string(round) + " " + tree.op.text());
    const double size = 1 + max_abs(tree.dense.a);
    const std::vector<double> x = random_cells<double>(g, 1), y = random_cells<double>(g, 2);
    std::vector<std::vector<double>> first;
    for (const AnyBackend& p :
         cuts(g, {Serial{1}, Serial{2}, Serial{3}, Serial{5}, Serial{0, {2, 2, 1}}, Serial{0, {3, 2, 1}}})) {
      const Blocks blocks(g, p);
      PreparedOperator<double> a(tree.op, blocks);
      Field<double> fx = make_field(blocks, x, "x"), fy = make_field(blocks, y, "y"), out(blocks, "out");
      std::vector<std::vector<double>> got;
      a.apply(out, fx);
      got.push_back(out.gather());
      a.boundary_rhs(out);
      got.push_back(out.gather());
      a.apply_adjoint(out, fy);
      got.push_back(out.gather());
      EXPECT_LT(max_difference(got[0], multiply(tree.dense, x)), 1e-11 * size);
      EXPECT_LT(max_difference(got[2], multiply(tree.dense, y, true)), 1e-11 * size);
      EXPECT_LE(std::abs(inner(got[0], y) - inner(x, got[2])), 1e-12 * size * norm(x) * norm(y));
      if (!nested_adjoint(tree.op)) {
        EXPECT_LT(max_difference(got[1], tree.dense.lift), 1e-11 * (size + max_abs(tree.dense.lift)));
      }
      if (first.empty()) first = got;
      for (std::size_t i = 0; i < got.size() && !has_reduce_leaf(tree.op); ++i)
        EXPECT_TRUE(same_bits(got[i], first[i])) << "parts " << blocks.partition().parts() << " output " << i;
    }
  }
}

TEST(GridAlgebra, ReduceFormsMatchOwnerFormsAndRepeat) {
  const CartesianGrid g = make_grid({7, 6, 10}, "DNPPRD");
  for (const LeafCase& c : leaf_cases(g))
    for (const AnyBackend& p : cuts(g, {Serial{3}, Serial{0, {2, 2, 2}}})) {
      SCOPED_TRACE(c.name);
      const Blocks blocks(g, p);
      Field<double> y = make_field(blocks, random_cells<double>(g, 2), "y"), out(blocks, "out");
      PreparedOperator<double> owner(c.op, blocks), reduce(c.op, blocks, {AdjointForm::reduce});
      owner.apply_adjoint(out, y);
      const std::vector<double> expected = out.gather();
      reduce.apply_adjoint(out, y);
      const std::vector<double> got = out.gather();
      EXPECT_LT(max_difference(got, expected), 1e-13 * (1 + max_abs(c.dense.a)));
      EXPECT_EQ(reduce.stats().reduces, c.name == "scaling field" || blocks.partition().parts() == 1 ? 0 : 1);
      for (int again = 0; again < 5; ++again) {
        reduce.apply_adjoint(out, y);
        EXPECT_TRUE(same_bits(out.gather(), got));
      }
    }
}

TEST(GridKappa, GradientMatchesCentralDifferencesAndTheScatterForm) {
  for (const std::string conditions : {"DNRD", "PPDN", "NNPP", "CDDD"})
    if (thorough() || conditions == "DNRD" || conditions == "PPDN")
      for (const Mean mean : {Mean::arithmetic, Mean::harmonic, Mean::geometric})
        for (const auto kind : {WallCoefficient::Kind::extrapolate, WallCoefficient::Kind::mirror,
                                WallCoefficient::Kind::given})
          for (const int components : {1, 2}) {
            const CartesianGrid g = make_grid({6, 5}, conditions);
            std::vector<double> kappa = random_cells<double>(g, 90, 0.4, 2);
            if (components == 2) {
              const std::vector<double> more = random_cells<double>(g, 91, 0.4, 2);
              kappa.insert(kappa.end(), more.begin(), more.end());
            }
            WallCoefficient wall{kind, {}};
            if (kind == WallCoefficient::Kind::given)
              for (auto& pair : wall.values)
                for (auto& face : pair) face = {1.3};
            const std::vector<double> x = random_cells<double>(g, 1), y = random_cells<double>(g, 2);
            const auto value = [&](const std::vector<double>& k) {
              return inner(y, multiply(dense_diffusion(g, k, components, mean, kind, 1.3), x));
            };
            std::vector<double> first;
            for (const AnyBackend& p :
                 cuts(g, {Serial{1}, Serial{2}, Serial{3}, Serial{5}, Serial{0, {2, 2, 1}}})) {
              const Blocks blocks(g, p);
              PreparedOperator<double> a(-1.0 * diffusion(Coefficient(g, kappa, components), mean, wall),
                                         blocks);
              Field<double> fx = make_field(blocks, x, "x"), fy = make_field(blocks, y, "y"),
                            out(blocks, "g");
              std::vector<double> all;
              for (int c = 0; c < components; ++c) {
                a.coefficient_gradient(out, fy, fx, c);
                const std::vector<double> owner = out.gather();
                a.coefficient_gradient_scatter(out, fy, fx, c);
                EXPECT_LT(max_difference(out.gather(), owner), 1e-12 * (1 + max_abs(owner)));
                all.insert(all.end(), owner.begin(), owner.end());
              }
              if (first.empty()) {
                first = all;
                for (std::size_t i = 0; i < kappa.size(); ++i) {
                  std::vector<double> up = kappa, down = kappa;
                  up[i] += 1e-5;
                  down[i] -= 1e-5;
                  EXPECT_NEAR(all[i], -(value(up) - value(down)) / 2e-5, 1e-5 * (1 + max_abs(all)))
                      << conditions << " cell " << i;
                }
              }
              EXPECT_TRUE(same_bits(all, first)) << conditions << " parts " << blocks.partition().parts();
            }
          }
}

TEST(GridKappa, UpdatesAreAsGoodAsPreparingAgain) {
  const CartesianGrid g = make_grid({7, 6, 9}, "DNPPRD");
  const std::vector<double> before = random_cells<double>(g, 90, 0.2, 3),
                            after = random_cells<double>(g, 95, 0.2, 3);
  for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 1, 3}}})) {
    const Blocks blocks(g, p);
    PreparedOperator<double> a(diffusion(Coefficient(g, before), Mean::harmonic), blocks);
    PreparedOperator<double> b(diffusion(Coefficient(g, after), Mean::harmonic), blocks);
    Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), ya(blocks, "ya"), yb(blocks, "yb");
    a.update_coefficient(make_field(blocks, after, "kappa"));
    a.apply(ya, x);
    b.apply(yb, x);
    EXPECT_TRUE(same_bits(ya.gather(), yb.gather()));
    EXPECT_EQ(a.stats().exchanges, blocks.partition().parts() == 1 ? 0 : 1);
  }
}

/// The plain Laplacian as a user would write it, on views.
UserLeaf user_laplacian() {
  UserLeaf leaf;
  leaf.name = "user laplacian";
  leaf.traits = {true, true, true, false, true, false};
  leaf.run_double = [](LaunchContext& context, const UserLeafCall<double>& call) {
    const auto n = call.x.layout.cells;
    const auto sx = call.x.layout.stride, sy = call.y.layout.stride;
    const int dims = call.grid->dims();
    double w[3];
    for (int d = 0; d < dims; ++d) w[d] = call.grid->inverse_square(d);
    context.parallel_for(n[1] * n[2], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t i = 0; i < n[0]; ++i) {
          const std::int64_t j = row % n[1], k = row / n[1];
          const double* const u = call.x.cell + i + j * sx[1] + k * sx[2];
          double sum = 0;
          for (std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d)
            sum += (u[-sx[d]] - 2 * u[0] + u[sx[d]]) * w[d];
          double& y = call.y.cell[i + j * sy[1] + k * sy[2]];
          y = call.beta == 0 ? call.alpha * sum : call.alpha * sum + call.beta * y;
        }
    });
  };
  return leaf;
}

TEST(GridAlgebra, AUsersLeafRunsOnBlocks) {
  const CartesianGrid g = make_grid({7, 6, 9}, "DNPPRD");
  const Dense dense = dense_laplacian(g);
  const std::vector<double> x = random_cells<double>(g, 1);
  std::vector<double> first;
  for (const AnyBackend& p : cuts(g, {Serial{1}, Serial{3}, Serial{0, {2, 2, 2}}})) {
    const Blocks blocks(g, p);
    PreparedOperator<double> a(user_leaf(g, user_laplacian()), blocks);
    Field<double> fx = make_field(blocks, x, "x"), y(blocks, "y");
    a.apply(y, fx);
    EXPECT_LT(max_difference(y.gather(), multiply(dense, x)), 1e-12 * max_abs(dense.a));
    if (first.empty()) first = y.gather();
    EXPECT_TRUE(same_bits(y.gather(), first));
    EXPECT_EQ(a.stats().exchanges, blocks.partition().parts() == 1 ? 0 : 1);
    a.apply_adjoint(y, fx);
    EXPECT_LT(max_difference(y.gather(), multiply(dense, x, true)), 1e-12 * max_abs(dense.a));
    a.boundary_rhs(y);
    EXPECT_LT(max_difference(y.gather(), dense.lift), 1e-12 * max_abs(dense.lift));
  }
}

TEST(GridAlgebra, TraitsOfWhatSaysNothingAreWeak) {
  const CartesianGrid g = make_grid({6, 5}, "DNPP");
  UserLeaf leaf = user_laplacian();
  leaf.traits = {};
  const Traits t = user_leaf(g, leaf).traits();
  EXPECT_FALSE(t.linear || t.constant || t.self_adjoint || t.diagonal || t.shares_exchange);
  EXPECT_TRUE(t.reads_ghosts);
  EXPECT_FALSE((laplacian(g) + user_leaf(g, leaf)).traits().self_adjoint);
  EXPECT_TRUE((laplacian(g) + 2.0 * identity()).traits().self_adjoint);
  EXPECT_FALSE(compose(laplacian(g), laplacian(g)).traits().self_adjoint);
  EXPECT_FALSE(compose(laplacian(g), scaling(2)).traits().reads_ghosts);
  EXPECT_TRUE(compose(scaling(2), laplacian(g)).traits().reads_ghosts);
}

TEST(GridAlgebra, ApplyAllocatesNoDeviceMemory) {
  const DeviceSet devices = open_devices(on_ranks() ? "host:1x1" : "host:2x1");
  const CartesianGrid g = make_grid({7, 6, 10}, "DNPPRD");
  const Blocks blocks(g, cut_on(devices, g, {3}));
  const Operator op = laplacian(g) + compose(derivative(g, 2), diffusion(Coefficient::constant(g, 2))) +
                      adjoint(derivative(g, 0, Difference::upwind_minus));
  PreparedOperator<double> a(op, blocks);
  Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
  a.apply(y, x);
  blocks.synchronize();
  std::vector<std::uint64_t> before;
  for (int d = 0; d < devices.size(); ++d) {
    before.push_back(devices[d].memory(MemoryUse::work).current());
    devices[d].memory(MemoryUse::work).reset_peak();
  }
  for (int again = 0; again < 10; ++again) {
    a.apply(y, x);
    a.apply_adjoint(y, x);
    a.boundary_rhs(y);
  }
  blocks.synchronize();
  for (int d = 0; d < devices.size(); ++d)
    EXPECT_EQ(devices[d].memory(MemoryUse::work).peak(), before[static_cast<std::size_t>(d)]);
}

/// A transport of one's own: messages backwards, through a mailbox on the host, counted; on demand one is
/// lost.
class MailboxTransport final : public BlockTransport {
 public:
  struct Log {
    int moves = 0, messages = 0;
    bool lose_one = false;
  };
  MailboxTransport(std::unique_ptr<BlockTransport> inner, std::shared_ptr<Log> log)
      : inner_(std::move(inner)), log_(std::move(log)) {}
  std::string name() const override { return "mailbox"; }
  std::vector<int> local_parts() const override { return inner_->local_parts(); }
  Stream& compute(int part) override { return inner_->compute(part); }
  Stream& transfer(int part) override { return inner_->transfer(part); }
  void move(const std::vector<Message>& messages, OrderedQueue& queue) override {
    ++log_->moves;
    std::vector<std::shared_ptr<std::vector<std::byte>>> mail;
    for (const Message& m : messages) {
      auto letter = std::make_shared<std::vector<std::byte>>(m.bytes);
      queue.enqueue(
          transfer(m.source),
          copy_operation("post", letter->data(), static_cast<const std::byte*>(m.from->data()) + m.from_begin,
                         m.bytes, {m.from->access(AccessMode::read, m.from_begin, m.bytes)}));
      mail.push_back(letter);
    }
    for (const int part : local_parts()) transfer(part).synchronize();
    for (std::size_t i = messages.size(); i-- > 0;) {
      if (log_->lose_one && i == 0) continue;
      const Message& m = messages[i];
      ++log_->messages;
      Operation deliver =
          copy_operation("deliver", static_cast<std::byte*>(m.to->data()) + m.to_begin, mail[i]->data(),
                         m.bytes, {m.to->access(AccessMode::write, m.to_begin, m.bytes)});
      deliver.body = [body = std::move(deliver.body), letter = mail[i]](LaunchContext& context) {
        body(context);
      };
      queue.enqueue(transfer(m.target), std::move(deliver));
    }
  }
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override { return inner_->host_memory(bytes); }
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override { return words; }
  bool agree(bool yes) override { return yes; }

 private:
  std::unique_ptr<BlockTransport> inner_;
  std::shared_ptr<Log> log_;
};

struct Mailbox {
  PartitionRequest wanted;
  DeviceSet devices;
  std::shared_ptr<MailboxTransport::Log> log = std::make_shared<MailboxTransport::Log>();
  PartitionRequest request() const { return wanted; }
  std::unique_ptr<BlockTransport> connect(const Partition& partition) const {
    return std::make_unique<MailboxTransport>(LocalDevices{devices, wanted.parts}.connect(partition), log);
  }
};
static_assert(DistributedBackend<Mailbox>);

TEST(GridBackend, OneOfYourOwnGivesTheSameBits) {
  const CartesianGrid g = make_grid({7, 6, 10}, "DNPPPP");
  const std::vector<double> x = random_cells<double>(g, 1);
  for (const LeafCase& c : leaf_cases(g))
    for (const PartitionRequest& wanted : {PartitionRequest{2, {}, false}, PartitionRequest{3, {}, false},
                                           PartitionRequest{4, {2, 1, 2}, false}}) {
      const Blocks one(g, Serial{1});
      PreparedOperator<double> expected(c.op, one);
      Field<double> x1 = make_field(one, x, "x"), y1(one, "y");
      expected.apply(y1, x1);
      Mailbox backend{wanted, open_devices("host:2x1")};
      const Blocks blocks(g, backend);
      PreparedOperator<double> a(c.op, blocks);
      Field<double> xb = make_field(blocks, x, "x"), yb(blocks, "y");
      const int before = backend.log->moves;
      a.apply(yb, xb);
      EXPECT_TRUE(same_bits(yb.gather(), y1.gather())) << c.name;
      const bool reads = c.name != "scaling field";
      EXPECT_EQ(backend.log->moves - before, reads ? 1 : 0);
      // A negative control: one lost message shows.
      if (c.name != "laplacian") continue;
      const std::vector<double> fresh = random_cells<double>(g, 9);
      backend.log->lose_one = true;
      a.apply(yb, make_field(blocks, fresh, "fresh"));
      expected.apply(y1, make_field(one, fresh, "fresh"));
      EXPECT_FALSE(same_bits(yb.gather(), y1.gather()));
    }
}

}  // namespace
}  // namespace shardwise::grid_test
