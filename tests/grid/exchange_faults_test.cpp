// The parity check has teeth: whichever message of an exchange is lost or damaged, the result is no longer
// that of one block. Every kind of exchange, every message of it; and a transport that fails ends it for all.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "grid/backends.hpp"
#include "grid/few_iterations.hpp"
#include "grid/hooked_backend.hpp"
#include "shardwise/grid/multigrid.hpp"

namespace shardwise::grid_test {
namespace {

/// What happens to a message. `lost`: the receiver keeps what the exchange before brought.
enum class Damage { lost, last_element_lost, blank, bit, reversed };
constexpr std::array damages{Damage::lost, Damage::last_element_lost, Damage::blank, Damage::bit,
                             Damage::reversed};
constexpr const char* damage_names[] = {"lost", "its last element lost", "blank", "a bit flipped",
                                        "reversed"};

/// Counts the messages that come to this process; one of them is damaged.
struct Fault {
  int messages = 0, arrived = 0;
  int which = -1;
  Damage damage = Damage::lost;
  bool changed = false;                 ///< other bytes arrived than were sent
  std::set<std::pair<int, int>> kinds;  ///< (dimension, side) of what passed
  std::vector<std::byte> before;        ///< the receiver's bytes

  void start(int message, Damage what) {
    messages = arrived = 0;
    which = message;
    damage = what;
    changed = false;
  }
  static std::byte* target_of(const Message& m) { return static_cast<std::byte*>(m.to->data()) + m.to_begin; }
  static void enqueue(const char* name, BlockTransport& inner, const Message& m, OrderedQueue& queue,
                      const std::function<void()>& call) {
    Operation operation;
    operation.name = name;
    operation.accesses = {m.to->access(AccessMode::write, m.to_begin, m.bytes)};
    operation.body = [call](LaunchContext& context) {
      context.parallel_for(1, 1, [&](std::int64_t, std::int64_t) { call(); });
    };
    queue.enqueue(inner.transfer(m.target), std::move(operation));
  }
  /// Around a move, for each of its messages; `arrived` is where the count stands then.
  void expect(BlockTransport& inner, const Message& m, OrderedQueue& queue) {
    if (!m.to) return;
    kinds.insert({m.dimension, m.side});
    if (messages++ == which)
      enqueue("keep", inner, m, queue,
              [this, target = target_of(m), bytes = m.bytes] { before.assign(target, target + bytes); });
  }
  void arrive(BlockTransport& inner, const Message& m, OrderedQueue& queue) {
    if (m.to && arrived++ == which)
      enqueue("damage", inner, m, queue, [this, target = target_of(m)] { change(target); });
  }
  MessageHook hook() {
    return {[this](auto& inner, auto& m, auto& queue) { expect(inner, m, queue); },
            [this](auto& inner, auto& m, auto& queue) { arrive(inner, m, queue); },
            {}};
  }
  void change(std::byte* target) {
    const std::size_t bytes = before.size(), n = bytes / sizeof(double);
    const std::vector<std::byte> sent(target, target + bytes);
    switch (damage) {
      case Damage::lost:
        std::copy(before.begin(), before.end(), target);
        break;
      case Damage::last_element_lost:
        std::copy(before.end() - sizeof(double), before.end(), target + bytes - sizeof(double));
        break;
      case Damage::blank:
        std::fill_n(target, bytes, std::byte{0});
        break;
      case Damage::bit:  // the highest of the exponent
        target[n / 2 * sizeof(double) + 7] ^= std::byte{0x40};
        break;
      case Damage::reversed:
        for (std::size_t i = 0; i < n / 2; ++i)
          std::swap_ranges(target + 8 * i, target + 8 * i + 8, target + 8 * (n - 1 - i));
        break;
    }
    changed = !std::equal(sent.begin(), sent.end(), target);
  }
};

using Round = std::function<std::vector<double>(std::uint32_t seed)>;

/// A computation that exchanges.
struct Scenario {
  std::string name;
  bool exact;  ///< has the bits of one block; else its values but for rounding
  bool fresh;  ///< the exchange belongs to preparing
  std::function<Round(const Blocks&)> prepare;
};

using Prepared = std::shared_ptr<PreparedOperator<double>>;

/// call(operator, output, x, y) on random fields of the round.
template <class Call>
Round round_of(const Blocks& blocks, Prepared a, Call call) {
  return [=](std::uint32_t seed) {
    const CartesianGrid& g = blocks.grid();
    Field<double> x = make_field(blocks, random_cells<double>(g, seed, 0.2, 3), "x");
    Field<double> y = make_field(blocks, random_cells<double>(g, seed + 1), "y"), out(blocks, "out");
    call(*a, out, x, y);
    return out.gather();
  };
}

template <class Call>
Scenario scenario(std::string name, bool exact, const Operator& op, const PrepareOptions& options,
                  Call call) {
  return {std::move(name), exact, false, [=](const Blocks& blocks) {
            return round_of(blocks, std::make_shared<PreparedOperator<double>>(op, blocks, options), call);
          }};
}

/// Sums the differences to all neighbours.
UserLeaf star() {
  UserLeaf leaf;
  leaf.name = "star";
  leaf.traits.linear = true;
  leaf.run_double = [](LaunchContext& context, const UserLeafCall<double>& call) {
    context.parallel_for(1, 1, [&](std::int64_t, std::int64_t) {
      const auto& n = call.x.layout.cells;
      const auto &sx = call.x.layout.stride, &sy = call.y.layout.stride;
      for (std::int64_t k = 0; k < n[2]; ++k)
        for (std::int64_t j = 0; j < n[1]; ++j)
          for (std::int64_t i = 0; i < n[0]; ++i) {
            const double* const u = call.x.cell + i + j * sx[1] + k * sx[2];
            double sum = 0;
            for (const std::int64_t s : sx) sum += u[-s] - 2 * u[0] + u[s];
            double& y = call.y.cell[i + j * sy[1] + k * sy[2]];
            y = call.alpha * sum + (call.beta == 0 ? 0 : call.beta * y);
          }
    });
  };
  return leaf;
}

std::vector<Scenario> scenarios(const CartesianGrid& g) {
  using P = PreparedOperator<double>;
  using F = Field<double>;
  const Operator l = laplacian(g);
  const auto kappa = [&g](std::uint32_t what) {
    return Coefficient(g, random_cells<double>(g, what, 0.2, 3));
  };
  const Operator d = diffusion(kappa(90), Mean::harmonic);
  std::vector<double> velocity;
  for (std::uint32_t c = 0; c < 3; ++c) {
    const std::vector<double> one = random_cells<double>(g, 91 + c, 0.2, 3);
    velocity.insert(velocity.end(), one.begin(), one.end());
  }
  const Operator flow = advection(Coefficient(g, velocity, 3));
  const auto forward = [](P& a, F& out, F& x, F&) { a.apply(out, x); };
  const auto back = [](P& a, F& out, F& x, F&) { a.apply_adjoint(out, x); };
  PrepareOptions reduce, overlapped;
  reduce.adjoint = AdjointForm::reduce;
  overlapped.overlap = Overlap::on;
  return {
      scenario("apply", true, d, {}, forward),
      scenario("apply, overlapped", true, d, overlapped, forward),
      scenario("a composition", true, compose(l, d), {}, forward),
      scenario("owner adjoint", true, flow, {}, back),
      scenario("reduce adjoint", false, flow, reduce, back),
      scenario("user leaf", true, user_leaf(g, star()), {}, forward),
      scenario("lift of a composition", true, compose(flow, d) + flow, {},
               [](P& a, F& out, F& x, F&) { a.assemble_rhs(out, x), a.apply(out, x, 1, 1); }),
      scenario("new coefficient", true, d, {},
               [](P& a, F& out, F& x, F& y) { a.update_coefficient(x), a.apply(out, y); }),
      scenario("d/d kappa", true, d, {}, [](P& a, F& out, F& x, F& y) { a.coefficient_gradient(out, y, x); }),
      scenario("d/d kappa, scattered", false, d, {},
               [](P& a, F& out, F& x, F& y) { a.coefficient_gradient_scatter(out, y, x); }),
      {"preparing", true, true,
       [d, forward](const Blocks& blocks) {
         return round_of(blocks, std::make_shared<P>(d, blocks), forward);
       }},
      {"multigrid", true, false,
       [d](const Blocks& blocks) -> Round {
         return [blocks, m = std::make_shared<Multigrid<double>>(-d, blocks)](std::uint32_t seed) {
           Field<double> z(blocks, "z");
           m->apply(z, make_field(blocks, random_cells<double>(blocks.grid(), seed), "r"));
           return z.gather();
         };
       }},
  };
}

struct Cut {
  Serial parts;
  GhostLayout layout;
};

/// Faces between the parts that are here.
std::set<std::pair<int, int>> faces_of(const Blocks& blocks) {
  std::set<std::pair<int, int>> faces;
  for (const int part : blocks.local_parts())
    for (int d = 0; d < blocks.grid().dims(); ++d)
      for (int side = 0; side < 2; ++side)
        if (blocks.partition().neighbour(part, d, side) >= 0) faces.insert({d, side});
  return faces;
}

TEST(GridExchangeFaults, EveryDamagedMessageIsFound) {
  const CartesianGrid g = make_grid({6, 5, 8}, "PPDNPP");
  int cases = 0;
  for (const Cut& c : {Cut{{2}, GhostLayout::planes}, Cut{{3}, GhostLayout::padded},
                       Cut{{0, {2, 2, 2}}, GhostLayout::planes}, Cut{{0, {2, 2, 2}}, GhostLayout::pitched}})
    for (const AnyBackend& cut : cuts(g, {c.parts}))
      for (const Scenario& s : scenarios(g)) {
        if (s.name == "multigrid" && c.layout == GhostLayout::pitched) continue;  // the longest
        if (!thorough() && (c.layout == GhostLayout::padded || c.parts.parts == 0)) continue;
        SCOPED_TRACE(s.name + " " + cut.text() + ", " + to_string(c.layout));
        const std::vector<double> expected = s.prepare(Blocks(g, Serial{1}))(11);
        const auto is_right = [&](const std::vector<double>& got) {
          return s.exact ? same_bits(got, expected)
                         : max_difference(got, expected) <= 1e-12 * (1 + max_abs(expected));
        };
        const auto fault = std::make_shared<Fault>();
        const Blocks blocks(g, Hooked<AnyBackend>{cut, fault->hook()}, c.layout);
        if (blocks.partition().parts() == 1) continue;  // one rank
        Round round;
        if (!s.fresh) round = s.prepare(blocks);
        // `message` of this process; -1: none.
        const auto run = [&](int message, Damage damage) {
          if (!s.fresh) (void)round(7);  // other values, which a lost message leaves
          fault->start(message, damage);
          return (s.fresh ? s.prepare(blocks) : round)(11);
        };
        EXPECT_TRUE(is_right(run(-1, Damage::lost)));
        const int messages = fault->messages;
        const auto faces = faces_of(blocks);
        EXPECT_GE(messages, static_cast<int>(faces.size()));
        for (const auto& face : faces)
          EXPECT_TRUE(fault->kinds.contains(face)) << "no message of dimension " << face.first;
        const bool windows = s.name == "multigrid";
        EXPECT_EQ(sum_of_processes(std::int64_t{fault->kinds.contains({Message::window, 0})}) > 0, windows);
        for (int who = 0; who < processes(); ++who) {
          const std::int64_t count = sum_of_processes(std::int64_t{who == process() ? messages : 0});
          for (int message = 0; message < count; ++message)
            for (const Damage damage : damages) {
              // Memory that was never written holds anything, the right values too.
              if (s.fresh && (damage == Damage::lost || damage == Damage::last_element_lost)) continue;
              // Windows are boxes: no interpolation reads their corners.
              if (windows && (damage == Damage::bit || damage == Damage::last_element_lost)) continue;
              if (!thorough() && damage != Damage::bit && damage != Damage::lost) continue;
              const std::vector<double> got = run(who == process() ? message : -1, damage);
              if (sum_of_processes(std::int64_t{who == process() && fault->changed}) == 0) {
                EXPECT_NE(damage, Damage::bit);  // zeros for zeros
                continue;
              }
              ++cases;
              EXPECT_FALSE(is_right(got)) << "message " << message << " of " << count << " to process " << who
                                          << " " << damage_names[static_cast<int>(damage)];
            }
        }
        EXPECT_TRUE(is_right(run(-1, Damage::lost))) << "damage stays";
      }
  if (process() == 0) std::printf("%d damaged messages\n", cases);
  EXPECT_GE(cases, !on_ranks() ? 5000 : processes() > 1 ? 100 : 0);
}

/// A transport that cannot move a message, on one process, in each of the exchanges of a solve: every process
/// ends with the cause, soon, and the next solve is right.
TEST(GridExchangeFaults, ATransportThatFailsEndsTheSolveForAll) {
  const CartesianGrid g = make_grid({6, 5, 12}, "DNPPRD");
  const auto solve = [&](const Blocks& blocks) {
    PreparedOperator<double> a(-diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3))), blocks);
    return few_iterations(a, blocks, g);
  };
  const std::vector<double> expected = solve(Blocks(g, Serial{1}));
  for (const AnyBackend& cut : cuts(g, {{3}})) {
    const auto passed = std::make_shared<int>(0), last = std::make_shared<int>(-1);
    const MessageHook hook{[passed, last](BlockTransport&, const Message& m, OrderedQueue&) {
                             if ((*passed)++ == *last)
                               throw Error(ErrorClass::device,
                                           "no way from part " + std::to_string(m.source));
                           },
                           {},
                           {}};
    EXPECT_TRUE(same_bits(solve(Blocks(g, Hooked<AnyBackend>{cut, hook})), expected));
    for (int who = 0; who < processes(); ++who) {
      const std::int64_t count = sum_of_processes(std::int64_t{who == process() ? *passed : 0});
      for (std::int64_t n = 0; n < count; n += thorough() ? 1 : 1 + count / 3) {
        const auto fail_at = [&](int at) {
          *passed = 0;
          *last = at;
          return solve(Blocks(g, Hooked<AnyBackend>{cut, hook}));
        };
        SCOPED_TRACE("message " + std::to_string(n) + " of process " + std::to_string(who));
        const Failure failure =
            failure_of([&] { (void)fail_at(who == process() ? static_cast<int>(n) : -1); });
        EXPECT_EQ(failure.error_class, ErrorClass::device);
        EXPECT_NE(failure.text.find("no way from part"), std::string::npos) << failure.text;
        EXPECT_FALSE(failure.consequence);
        EXPECT_LT(failure.seconds, 10);
        EXPECT_TRUE(same_bits(fail_at(-1), expected));
      }
    }
  }
}

}  // namespace
}  // namespace shardwise::grid_test
