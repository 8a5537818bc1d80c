// grid_tests: all parts in one process.

#include <gtest/gtest.h>

#include <chrono>

#include "grid/backends.hpp"

namespace shardwise::grid_test {

namespace {

std::string text_of(const std::string& what, const Serial& s) {
  return what + " parts " + std::to_string(s.parts) + " " + std::to_string(s.process_grid[0]) +
         std::to_string(s.process_grid[1]) + std::to_string(s.process_grid[2]);
}

}  // namespace

std::vector<AnyBackend> cuts(const CartesianGrid& grid, const std::vector<Serial>& wanted) {
  std::vector<AnyBackend> all;
  for (const Serial& s : wanted) all.push_back(cut(grid, s));
  return all;
}

AnyBackend cut(const CartesianGrid&, const Serial& wanted) {
  return AnyBackend(wanted, text_of("serial", wanted));
}

std::vector<AnyBackend> cuts_on(const std::string& spec, const CartesianGrid& grid,
                                const std::vector<Serial>& wanted) {
  const DeviceSet devices = open_devices(spec);
  std::vector<AnyBackend> all;
  for (const Serial& s : wanted) all.push_back(cut_on(devices, grid, s));
  return all;
}

AnyBackend cut_on(const DeviceSet& devices, const CartesianGrid&, const Serial& wanted) {
  return AnyBackend(LocalDevices{devices, wanted.parts, wanted.process_grid, wanted.blocks},
                    text_of(devices.spec(), wanted));
}

bool on_ranks() {
  return false;
}
int processes() {
  return 1;
}
int process() {
  return 0;
}
double sum_of_processes(double value) {
  return value;
}
std::int64_t sum_of_processes(std::int64_t value) {
  return value;
}

Failure failure_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  try {
    call();
  } catch (const DependencyError& error) {
    return {error.error_class(), error.what(), true, seconds()};
  } catch (const Error& error) {
    return {error.error_class(), error.what(), false, seconds()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace shardwise::grid_test
