#pragma once

#include "shardwise/runtime/device.hpp"

namespace shardwise {

/// A device whose streams run every operation at once, on the calling thread. Errors are kept and reported as
/// other streams do.
class InlineDevice final : public Device {
 public:
  InlineDevice();
  std::unique_ptr<Stream> create_stream(const std::string& name) override;
  std::uint64_t free_memory() override { return available_; }

 protected:
  void* raw_allocate(Stream& stream, std::uint64_t bytes, const std::string& what) override;
  void raw_release(Stream& stream, void* pointer, ResourceId resource, std::uint64_t bytes,
                   std::function<void()> done) override;

 private:
  std::uint64_t available_;
};

}  // namespace shardwise
