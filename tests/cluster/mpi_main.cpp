// A GoogleTest program on the ranks that mpirun started: rank 0 prints, others print what fails on them, and
// all end with the same exit code. SHARDWISE_TEST_RANKS: how many there have to be.

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cluster/rank_fixture.hpp"
#include "shardwise/cluster/mpi.hpp"

namespace shardwise::testing {
namespace {

std::shared_ptr<Communicator> world;

class PrintFailures final : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name();
  }
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s failed: %s:%d: %s\n", ranks().rank(), test_.c_str(),
                 result.file_name() != nullptr ? result.file_name() : "", result.line_number(),
                 result.message());
  }
  std::string test_;  // asked for in a callback, GoogleTest waits for itself
};

}  // namespace

Communicator& ranks() {
  return *world;
}

}  // namespace shardwise::testing

int main(int argc, char** argv) {
  using namespace shardwise;
  using namespace shardwise::testing;
  ::testing::InitGoogleTest(&argc, argv);
  MpiOptions options;
  const char* deadline = std::getenv("SHARDWISE_RANK_DEADLINE");
  options.deadline_s = deadline != nullptr && *deadline != '\0' ? std::atof(deadline) : 30;
  options.busy_deadline_s = 60;
  world = mpi_world(options);
  const char* wanted = std::getenv("SHARDWISE_TEST_RANKS");
  if (wanted != nullptr && std::atoi(wanted) != world->size()) {
    std::fprintf(stderr, "%d ranks run where SHARDWISE_TEST_RANKS says %s: is this the mpirun of %s?\n",
                 world->size(), wanted, world->name().c_str());
    return 1;
  }
  if (world->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new PrintFailures);
  }
  std::int64_t failed = RUN_ALL_TESTS();
  if (::testing::UnitTest::GetInstance()->test_to_run_count() == 0) failed = 1;
  world->max(std::span(&failed, 1), "exit code");
  world.reset();
  return static_cast<int>(failed);
}
