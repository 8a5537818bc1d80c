#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "gpu/scenario_rows.hpp"

namespace shardwise::test {

void expect_scenario(const DeviceSet& devices) {
  Executor executor(devices);
  std::vector<std::unique_ptr<Scenario>> scenarios;
  std::vector<shardwise::Run> runs;
  for (Word salt = 0; salt < 6; ++salt) {
    ScenarioOptions options;
    options.rows = 20000;
    options.chunks = static_cast<int>(1 + salt);
    options.salt = salt;
    options.check_on_master = salt % 2 == 0;
    options.launch = test::launch_rows;
    scenarios.push_back(std::make_unique<Scenario>(executor, options));
    scenarios.back()->enqueue_before();
    runs.push_back(executor.run(scenarios.back()->graph()));
    scenarios.back()->enqueue_after();
  }
  for (shardwise::Run& run : runs) run.wait([] {});
  scenarios.front()->synchronize_callers();
  for (const auto& scenario : scenarios) EXPECT_EQ(scenario->output(), scenario->expected());
}

}  // namespace shardwise::test
