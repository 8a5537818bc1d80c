// Predictions are the arithmetic that the header promises: figures by hand, and properties over random
// machines.

#include "shardwise/shard/machine_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace shardwise {
namespace {

MachineModel two(double speed = 1) {
  MachineModel machine;
  machine.devices = {{}, {speed, 1e-9, 2e-9, 5e-6, 3e-9}};
  machine.call_s = 10e-6;
  machine.spread_s = {1e-6, 2e-6, 3e-6};
  return machine;
}

TEST(MachineModel, ByHand) {
  const MachineModel machine = two(0.5);
  OperationModel operation{20e-6, 4e-9, 10, 30};
  constexpr std::int64_t rows = 100'000;
  EXPECT_DOUBLE_EQ(predict_alone(machine, operation, rows), 10e-6 + 20e-6 + 400e-6);
  // Device 1: half the rows at half the speed are 400 us; in 500 us, out 3 ms.
  const double in = 5e-6 + 50'000 * 10 * 1e-9, out = 5e-6 + 50'000 * 30 * 2e-9;
  EXPECT_DOUBLE_EQ(predict_spread(machine, operation, rows, {1, 1}, Overlap::none, 4),
                   10e-6 + 3e-6 + (20e-6 + 400e-6) + in + out);
  const double in4 = in + 15e-6, out4 = out + 15e-6;
  EXPECT_DOUBLE_EQ(predict_spread(machine, operation, rows, {1, 1}, Overlap::pipelined, 4),
                   10e-6 + 1e-6 + out4 + (in4 + out4) / 4);
  EXPECT_DOUBLE_EQ(predict_spread(machine, operation, rows, {1, 1}, Overlap::direct, 4),
                   10e-6 + 2e-6 + std::hypot(420e-6, 50'000 * 30 * 3e-9));
  // Nothing for the other device: the first one's own time.
  EXPECT_DOUBLE_EQ(predict_spread(machine, operation, rows, {1, 0}, Overlap::direct, 4),
                   10e-6 + 2e-6 + 20e-6 + 400e-6);
}

TEST(MachineModel, TwoCallsTellAnOperation) {
  const MachineModel machine = two();
  const OperationModel operation =
      operation_of_two_calls(machine, 1000, 10e-6 + 5e-6 + 3e-6, 2000, 10e-6 + 5e-6 + 6e-6);
  EXPECT_NEAR(operation.launch_s, 5e-6, 1e-15);
  EXPECT_NEAR(operation.row_s, 3e-9, 1e-18);
  // Noise that would make a part negative makes it zero; the longer call is met in any case.
  for (const auto& [a, b] : {std::pair{50e-6, 40e-6}, std::pair{12e-6, 40e-6}, std::pair{1e-6, 2e-6}}) {
    const OperationModel odd = operation_of_two_calls(machine, 1000, a, 2000, b);
    EXPECT_GE(odd.launch_s, 0);
    EXPECT_GE(odd.row_s, 0);
    EXPECT_NEAR(predict_alone(machine, odd, 2000), std::max(b, machine.call_s), 1e-15);
  }
}

TEST(MachineModel, BalancedWeightsAreTheBest) {
  std::mt19937 random(3);
  const auto draw = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    MachineModel machine;
    const int count = 1 + round % 5;
    for (int d = 0; d < count; ++d)
      machine.devices.push_back(
          {draw(0.2, 2), draw(0, 1e-10), draw(0, 1e-10), draw(0, 1e-5), draw(0, 1e-10)});
    machine.devices.front() = {};
    machine.call_s = 1e-5;
    const OperationModel operation{draw(0, 1e-4), draw(1e-10, 1e-8), draw(0, 100), draw(0, 100)};
    constexpr std::int64_t rows = 1 << 20;
    for (const Overlap way : {Overlap::pipelined, Overlap::direct, Overlap::none}) {
      const std::vector<double> best = balanced_weights(machine, operation, rows, way, 4);
      EXPECT_NEAR(std::accumulate(best.begin(), best.end(), 0.0), 1, 1e-9);
      const double seconds = predict_spread(machine, operation, rows, best, way, 4);
      EXPECT_LE(seconds, machine.call_s + operation.launch_s + rows * operation.row_s + 1e-9)
          << "round " << round;
      for (int other = 0; other < 20; ++other) {
        std::vector<double> weights;
        for (int d = 0; d < count; ++d) weights.push_back(draw(0.01, 1));
        EXPECT_GE(predict_spread(machine, operation, rows, weights, way, 4), seconds * (1 - 1e-6))
            << "round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace shardwise
