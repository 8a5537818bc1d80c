// Waits for NCCL end: with the work, with another rank's failure, with an error of the link. The library is
// fake_nccl.cpp, found as any other; the GPUs are host streams.

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "cluster/fake_nccl.hpp"
#include "cluster/nccl.hpp"
#include "cluster/rank_fixture.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise::testing {
namespace {

using Clock = std::chrono::steady_clock;

class NcclWaits : public ::testing::Test {
 protected:
  NcclWaits() {
    setenv("SHARDWISE_NCCL", SHARDWISE_FAKE_NCCL, 1);
    std::string why;
    nccl_ = load_nccl(&why);
    EXPECT_NE(nccl_, nullptr) << why;
    library_ = dlopen(SHARDWISE_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(library_, nullptr);
    set_mode(works);
  }
  ~NcclWaits() override { set_mode(works); }

  template <class... Arguments>
  int control(const char* name, Arguments... arguments) {
    auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    EXPECT_NE(function, nullptr) << name;
    return function(arguments...);
  }
  void set_mode(FakeNcclMode mode) {
    reinterpret_cast<void (*)(int)>(dlsym(library_, "fake_set_mode"))(mode);
  }
  std::shared_ptr<DeviceCollectives> connect() { return connect_nccl(*nccl_, ranks(), *stream_, words_); }

  /// A sum and the wait for it, as whoever uses a link does both.
  void sum(DeviceCollectives& link) {
    Operation sum;
    sum.name = "sum";
    sum.accesses = {words_.access(AccessMode::write)};
    sum.body = [&](LaunchContext& context) {
      link.sum_to_rank_0(context, static_cast<std::uint64_t*>(words_.data()), words_.bytes() / 8);
    };
    stream_->enqueue(std::move(sum));
    Operation gpu;
    gpu.name = "GPU";
    gpu.body = [this](LaunchContext&) { EXPECT_EQ(control("fake_gpu_wait"), 1); };
    stream_->enqueue(std::move(gpu));
    stream_->synchronize();
    link.check();
  }
  static bool is_last() { return ranks().rank() == ranks().size() - 1; }

  const Nccl* nccl_ = nullptr;
  void* library_ = nullptr;
  DeviceSet devices_ = open_devices("host:1x1");
  std::unique_ptr<Stream> stream_ = devices_[0].create_stream("sums");
  Memory words_{*stream_, 1024, "words"};
};

TEST_F(NcclWaits, ALinkIsMadeUsedAndEnded) {
  {
    const std::shared_ptr<DeviceCollectives> link = connect();
    EXPECT_EQ(link->name(), "NCCL 2.99.1");
    for (int i = 0; i < 3; ++i) sum(*link);
    EXPECT_FALSE(link->is_given_up());
  }
  EXPECT_EQ(control("fake_aborts"), 0);
  EXPECT_EQ(control("fake_destroys"), 1);
}

TEST_F(NcclWaits, AWaitThatTakesLongIsLeftAlone) {
  const std::shared_ptr<DeviceCollectives> link = connect();
  set_mode(never_ends);
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    reinterpret_cast<void (*)()>(dlsym(library_, "fake_end"))();
  });
  sum(*link);
  later.join();
  EXPECT_FALSE(link->is_given_up());
  ranks().barrier("all have waited");
}

TEST_F(NcclWaits, AnotherRanksFailureEndsThem) {
  for (const FakeNcclMode mode : {never_ends, call_never_returns}) {
    SCOPED_TRACE(static_cast<int>(mode));
    std::shared_ptr<DeviceCollectives> link = connect();
    set_mode(mode);
    const auto start = Clock::now();
    const RankError error = agreed_error([&] {
      if (is_last()) throw_data("no such file");
      sum(*link);
      ADD_FAILURE() << "a sum without the last rank";
    });
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 10);
    EXPECT_EQ(error.error_class(), ErrorClass::data);
    EXPECT_EQ(error.rank(), ranks().size() - 1);
    EXPECT_NE(std::string(error.what()).find("no such file"), std::string::npos) << error.what();
    EXPECT_EQ(link->is_given_up(), !is_last());
    if (!is_last()) {
      EXPECT_THROW(link->check(), DependencyError);
      EXPECT_THROW(sum(*link), DependencyError);
    }
    set_mode(works);
    // The last rank's end is good for nothing without the others': no proper end, which would wait for them.
    link = nullptr;
    EXPECT_EQ(control("fake_aborts"), 1);
    EXPECT_EQ(control("fake_destroys"), 0);
    // And all connect again.
    link = connect();
    sum(*link);
  }
}

TEST_F(NcclWaits, AFailureThatAllHearOfElsewhereLeavesTheLink) {
  const std::shared_ptr<DeviceCollectives> link = connect();
  (void)agreed_error([&] {
    if (is_last()) throw_data("no such file");
    ranks().barrier("between sums");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(800));
  EXPECT_FALSE(link->is_given_up());
  sum(*link);
}

TEST_F(NcclWaits, AnErrorOfTheLinkIsThrownByAll) {
  const std::shared_ptr<DeviceCollectives> link = connect();
  set_mode(never_ends);
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (ranks().rank() == 0) reinterpret_cast<void (*)(int)>(dlsym(library_, "fake_set_async_error"))(6);
  });
  const RankError error = agreed_error([&] { sum(*link); });
  later.join();
  EXPECT_EQ(error.error_class(), ErrorClass::device);
  EXPECT_EQ(error.rank(), 0);
  EXPECT_NE(std::string(error.what()).find("network error"), std::string::npos) << error.what();
  EXPECT_TRUE(link->is_given_up());
}

TEST_F(NcclWaits, RanksThatCannotConnectSaySoTogether) {
  if (ranks().rank() == 0) set_mode(init_fails);
  const auto start = Clock::now();
  // No rank's failure: they may go on without a link.
  try {
    (void)connect();
    ADD_FAILURE() << "connected";
  } catch (const Error& error) {
    EXPECT_EQ(dynamic_cast<const RankError*>(&error), nullptr);
    EXPECT_EQ(error.error_class(), ErrorClass::device);
    EXPECT_NE(std::string(error.what()).find("ncclCommInitRank"), std::string::npos) << error.what();
  }
  ranks().barrier("none is connected");
  // The others' GPUs would wait for the first sum.
  set_mode(ranks().rank() == 0 ? call_fails : works);
  const RankError error = agreed_error([&] { (void)connect(); });
  EXPECT_EQ(error.error_class(), ErrorClass::device);
  EXPECT_EQ(error.rank(), 0);
  EXPECT_NE(std::string(error.what()).find("ncclReduce"), std::string::npos) << error.what();
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), 10);
}

/// A run of its own: nobody can call NCCL off that waits for a rank in vain, so that the run is ended.
TEST_F(NcclWaits, DISABLED_ARankThatConnectsInVainEndsTheRun) {
  set_mode(ranks().rank() == 0 ? init_fails : init_never_returns);
  EXPECT_THROW(connect(), Error);
  ADD_FAILURE() << "the run goes on";
}

}  // namespace
}  // namespace shardwise::testing
