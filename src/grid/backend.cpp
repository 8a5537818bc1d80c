#include "shardwise/grid/backend.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <numeric>

#include "grid/inline_device.hpp"
#include "runtime/pinned_memory.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

namespace {

std::vector<int> all_parts(const Partition& partition) {
  std::vector<int> parts(static_cast<std::size_t>(partition.parts()));
  std::iota(parts.begin(), parts.end(), 0);
  return parts;
}

/// Blocks of one process: the receiver's transfer stream pulls.
class LocalTransport : public BlockTransport {
 public:
  std::vector<int> local_parts() const override { return parts_; }
  void move(const std::vector<Message>& messages, OrderedQueue& queue) override {
    for (const Message& m : messages) {
      const auto* source = static_cast<const std::byte*>(m.from->data()) + m.from_begin;
      auto* target = static_cast<std::byte*>(m.to->data()) + m.to_begin;
      queue.enqueue(transfer(m.target),
                    copy_operation("halo", target, source, m.bytes,
                                   {m.to->access(AccessMode::write, m.to_begin, m.bytes),
                                    m.from->access(AccessMode::read, m.from_begin, m.bytes)}));
    }
  }
  std::vector<std::int64_t> gather_words(const std::vector<std::int64_t>& words) override { return words; }
  bool agree(bool yes) override { return yes; }

 protected:
  explicit LocalTransport(const Partition& partition) : parts_(all_parts(partition)) {}
  std::vector<int> parts_;
};

class SerialTransport final : public LocalTransport {
 public:
  explicit SerialTransport(const Partition& partition) : LocalTransport(partition) {
    for (const int part : parts_) streams_.push_back(device_.create_stream(fmt::format("part {}", part)));
  }
  std::string name() const override { return "serial"; }
  Stream& compute(int part) override { return *streams_[static_cast<std::size_t>(part)]; }
  Stream& transfer(int part) override { return *streams_[static_cast<std::size_t>(part)]; }
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override {
    void* memory = std::malloc(bytes == 0 ? 1 : bytes);
    if (!memory) throw Error(ErrorClass::memory, fmt::format("grid: no host memory of {} bytes", bytes));
    return {memory, std::free};
  }

 private:
  InlineDevice device_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

class DevicesTransport final : public LocalTransport {
 public:
  DevicesTransport(const Partition& partition, const DeviceSet& devices)
      : LocalTransport(partition), devices_(devices) {
    for (const int part : parts_) {
      const auto d = static_cast<int>(static_cast<std::int64_t>(part) * devices.size() / partition.parts());
      compute_.push_back(devices_[d].create_stream(fmt::format("part {} compute", part)));
      transfer_.push_back(devices_[d].create_stream(fmt::format("part {} transfer", part)));
    }
  }
  std::string name() const override { return "local devices " + devices_.spec(); }
  Stream& compute(int part) override { return *compute_[static_cast<std::size_t>(part)]; }
  Stream& transfer(int part) override { return *transfer_[static_cast<std::size_t>(part)]; }
  std::shared_ptr<void> host_memory(std::uint64_t bytes) override {
    return allocate_pinned(devices_, bytes, "grid scalars");
  }
  SimWorld* sim_world() const override { return devices_.sim_world(); }

 private:
  DeviceSet devices_;
  std::vector<std::unique_ptr<Stream>> compute_, transfer_;
};

}  // namespace

std::unique_ptr<BlockTransport> Serial::connect(const Partition& partition) const {
  return std::make_unique<SerialTransport>(partition);
}

PartitionRequest LocalDevices::request() const {
  const bool fixed = process_grid[0] > 0 || process_grid[1] > 0 || process_grid[2] > 0;
  return {parts > 0 || fixed ? parts : devices.size(), process_grid, blocks};
}

std::unique_ptr<BlockTransport> LocalDevices::connect(const Partition& partition) const {
  if (devices.size() == 0)
    throw GridError(GridErrorCode::too_many_devices, "grid: LocalDevices has no device; open some", {0});
  if (devices.size() > partition.parts())
    throw GridError(GridErrorCode::too_many_devices,
                    fmt::format("grid: LocalDevices has {} devices for {} parts; use at least as many parts, "
                                "or fewer devices",
                                devices.size(), partition.parts()),
                    {static_cast<double>(devices.size()), static_cast<double>(partition.parts())});
  return std::make_unique<DevicesTransport>(partition, devices);
}

}  // namespace shardwise
