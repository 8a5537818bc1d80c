// What the watch must not take for ranks that wait for each other. SHARDWISE_RANK_DEADLINE is short here; a
// run that it ends has failed.

#include <chrono>
#include <thread>

#include "cluster/rank_fixture.hpp"

namespace shardwise::testing {
namespace {

/// Rank 1 computes for longer than the deadline, while all others wait for it. It has given up a message
/// before, and another of its threads waits for one: neither is what holds the others up.
TEST(Watch, ARankThatComputesIsNoRankThatWaits) {
  std::vector<std::byte> bytes(100), late(10);
  if (ranks().rank() == 0) ranks().send(std::span(bytes).first(50), 1, 1, "sized")->wait();
  if (ranks().rank() == 1) {
    const auto message = ranks().receive(std::span(bytes).first(70), 0, 1, "sized");
    EXPECT_THROW(message->wait(), Error);
    std::thread other([&] { ranks().receive(late, 0, 2, "for another thread")->wait(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(6500));
    ranks().barrier("computed");
    other.join();
  } else {
    ranks().barrier("computed");
    if (ranks().rank() == 0) ranks().send(late, 1, 2, "for another thread")->wait();
  }
  ranks().barrier("end");
}

}  // namespace
}  // namespace shardwise::testing
