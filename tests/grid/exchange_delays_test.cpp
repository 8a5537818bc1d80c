// Whoever is late, an exchange has the same bits: messages, the kernels before and after them, whole devices
// and links. Operations follow each other without a wait by the host.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "grid/backends.hpp"
#include "grid/hooked_backend.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/sim.hpp"

namespace shardwise::grid_test {
namespace {

/// Who is held up at each message.
enum class Late { sender, message, receiver, any };

/// An operation that touches nothing and takes its time.
void hold_up(Stream& stream, int microseconds) {
  Operation wait;
  wait.name = "wait";
  wait.body = [microseconds](LaunchContext& context) {
    context.parallel_for(1, 1, [&](std::int64_t, std::int64_t) {
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    });
  };
  stream.enqueue(std::move(wait));
}

/// Streams that are here; with ranks the calling thread as well, which does what they do not.
MessageHook late(Late who) {
  static constexpr int microseconds = 40;
  const auto n = std::make_shared<std::uint64_t>(0);
  const auto now = std::make_shared<std::vector<Late>>();  // of the messages of this move
  const auto late_thread = [](Late late, const Message& m) {
    const bool mine = late == Late::sender ? m.to == nullptr : m.from == nullptr;
    if (on_ranks() && mine && (m.dimension + m.side + process()) % 2 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  };
  MessageHook hook;
  hook.before = [=](BlockTransport& inner, const Message& m, OrderedQueue&) {
    now->push_back(who == Late::any ? static_cast<Late>(philox(3, ++*n, 0).uniform_double(0) * 3) : who);
    const Late late = now->back();
    if (late == Late::sender && m.from) hold_up(inner.compute(m.source), microseconds);
    if (late == Late::message && m.to) hold_up(inner.transfer(m.target), microseconds);
    late_thread(late, m);
  };
  hook.after = [=](BlockTransport& inner, const Message& m, OrderedQueue&) {
    const Late late = now->front();
    now->erase(now->begin());
    if (late == Late::message && m.to) hold_up(inner.transfer(m.target), microseconds);
    if (late == Late::receiver && m.to) hold_up(inner.compute(m.target), microseconds);
    late_thread(late, m);
  };
  return hook;
}

/// A transport that forgets to ask for an order, once buffers are there: copies as soon as the receiver's
/// stream gets to it.
MessageHook unordered_after(int messages) {
  MessageHook hook;
  hook.instead = [left = std::make_shared<int>(messages)](BlockTransport& inner, const Message& m,
                                                          OrderedQueue& queue) {
    if (--*left >= 0) {
      inner.move({m}, queue);
      for (const int part : inner.local_parts())
        if (*left == 0) inner.compute(part).synchronize(), inner.transfer(part).synchronize();
      return true;
    }
    inner.transfer(m.target).enqueue(
        copy_operation("halo", static_cast<std::byte*>(m.to->data()) + m.to_begin,
                       static_cast<const std::byte*>(m.from->data()) + m.from_begin, m.bytes,
                       {m.to->access(AccessMode::write, m.to_begin, m.bytes),
                        m.from->access(AccessMode::read, m.from_begin, m.bytes)}));
    return true;
  };
  return hook;
}

/// Two hundred exchanges back to back through the buffers of one operator: forward, back, and reduced.
std::vector<double> ping_pong(const Blocks& blocks, Overlap overlap, int rounds) {
  const CartesianGrid& g = blocks.grid();
  PrepareOptions options;
  options.overlap = overlap;
  const Operator op =
      1e-3 * diffusion(Coefficient(g, random_cells<double>(g, 90, 0.2, 3)), Mean::harmonic) + identity();
  PreparedOperator<double> a(op, blocks, options);
  Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
  for (int i = 0; i < rounds; ++i) {
    a.apply(y, x);
    a.apply_adjoint(x, y);
  }
  std::vector<double> result = x.gather();
  blocks.synchronize();  // copies without an order are no longer under way
  return result;
}

/// The same for a leaf whose adjoint adds into its neighbours: its bits belong to the partition.
std::vector<double> reduced(const Blocks& blocks, int rounds) {
  const CartesianGrid& g = blocks.grid();
  PreparedOperator<double> a(0.05 * derivative(g, 2, Difference::upwind_minus) + identity(), blocks);
  Field<double> x = make_field(blocks, random_cells<double>(g, 1), "x"), y(blocks, "y");
  for (int i = 0; i < rounds; ++i) {
    a.apply_adjoint(y, x);
    a.apply_adjoint(x, y);
  }
  return x.gather();
}

TEST(GridExchangeDelays, LateStreamsHaveTheSameBits) {
  const CartesianGrid g = make_grid({6, 5, 11}, "PPDNPP");
  const std::vector<double> expected = ping_pong(Blocks(g, Serial{1}), Overlap::off, 100);
  for (const double value : expected) ASSERT_TRUE(std::isfinite(value));
  for (const std::string spec : {"host:2x1", "host:3x1"})
    for (const int parts : {3, 5}) {
      if (on_ranks() && (spec != "host:2x1" || parts != 3)) continue;  // the same there
      for (const AnyBackend& cut : cuts_on(spec, g, {{parts}})) {
        const std::vector<double> sums = reduced(Blocks(g, serial_of(cut)), 20);
        for (const Late who : {Late::sender, Late::message, Late::receiver, Late::any})
          for (const Overlap overlap : {Overlap::off, Overlap::on}) {
            SCOPED_TRACE(cut.text() + " late " + std::to_string(static_cast<int>(who)));
            const Blocks blocks(g, Hooked<AnyBackend>{cut, late(who)});
            EXPECT_TRUE(same_bits(ping_pong(blocks, overlap, 100), expected));
            EXPECT_TRUE(same_bits(reduced(blocks, 20), sums));
          }
      }
    }
}

TEST(GridExchangeDelays, SlowDevicesAndLinksOfSimHaveTheSameBits) {
  const CartesianGrid g = make_grid({6, 5, 11}, "PPDNPP");
  constexpr int rounds = 10;
  const std::vector<double> expected = ping_pong(Blocks(g, Serial{1}), Overlap::off, rounds);
  const std::vector<double> sums = reduced(Blocks(g, Serial{5}), rounds);
  std::vector<std::uint64_t> orders;
  for (const char* faults : {"", "device 1 slow 100", "link 0 1 slow 500; link 2 1 slow 50",
                             "device 0 slow 20; device 2 slow 300; link 1 0 slow 1000"})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(std::string("'") + faults + "' seed " + std::to_string(seed));
      OpenOptions options;
      options.sim_seed = 100 * orders.size() + seed;  // the order is the seed's; faults change the time
      options.sim_faults = faults;
      const DeviceSet devices = open_devices("sim:3", options);
      const Blocks blocks(g, LocalDevices{devices, 5});
      EXPECT_TRUE(same_bits(ping_pong(blocks, seed % 2 == 0 ? Overlap::on : Overlap::off, rounds), expected));
      EXPECT_TRUE(same_bits(reduced(blocks, rounds), sums));
      for (const RaceReport& race : devices.sim_world()->races()) ADD_FAILURE() << race.text;
      orders.push_back(devices.sim_world()->take_order_hash());
    }
  std::sort(orders.begin(), orders.end());
  EXPECT_EQ(std::unique(orders.begin(), orders.end()) - orders.begin(), 20);
}

/// The negative control: without an order, sim names the race, and some order has other bits.
TEST(GridExchangeDelays, AnExchangeWithoutAnOrderIsFound) {
  const CartesianGrid g = make_grid({6, 5, 11}, "PPDNPP");
  const std::vector<double> expected = ping_pong(Blocks(g, Serial{1}), Overlap::off, 10);
  int different = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    OpenOptions options;
    options.sim_seed = seed;
    const DeviceSet devices = open_devices("sim:3", options);
    const Blocks blocks(g, Hooked<LocalDevices>{{devices, 3}, unordered_after(12)});
    different += same_bits(ping_pong(blocks, Overlap::off, 10), expected) ? 0 : 1;
    const std::vector<RaceReport> races = devices.sim_world()->races();
    ASSERT_FALSE(races.empty());
    EXPECT_NE(races.front().text.find("halo"), std::string::npos) << races.front().text;
  }
  EXPECT_GT(different, 0);
}

}  // namespace
}  // namespace shardwise::grid_test
