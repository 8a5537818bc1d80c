#pragma once
// What a program sees of its job and device, and what the job holds there.

#include <fmt/format.h>

#include <any>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jobs/job_lane.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

class LaneContext final : public JobContext {
 public:
  LaneContext(JobLane& lane, JobAttempt& attempt) : lane_(lane), ticket_(attempt.ticket) {
    watched_.ticket = attempt.ticket;
    watched_.number = attempt.number;
  }

  const Job& job() const override { return ticket_->job; }
  Device& device() const override { return lane_.devices_.master(); }
  int device_index() const override { return lane_.device_; }
  const DeviceSet& devices() const override { return lane_.devices_; }
  Stream& stream() const override { return *lane_.compute_; }

  const void* input_data(std::size_t index) const override {
    check_input(index);
    return input_bytes(index) == 0 ? nullptr
                                   : static_cast<const std::byte*>(inputs_.data()) + offsets_[index];
  }
  std::uint64_t input_bytes(std::size_t index) const override {
    check_input(index);
    return given_[index].bytes().size();
  }

  void* output_bytes(std::uint64_t bytes) override {
    if (outputs_.size() + 1 >= AccessList::capacity)
      throw_usage(fmt::format("job '{}': a job has at most {} outputs; put several into one", ticket_->id,
                              AccessList::capacity - 1));
    outputs_.emplace_back(*lane_.compute_, bytes,
                          fmt::format("output {} of job '{}'", outputs_.size(), ticket_->id));
    return outputs_.back().data();
  }

  void launch(std::string name, std::int64_t items, std::function<void(LaunchContext&)> body) override {
    Operation operation;
    operation.name = std::move(name);
    operation.items = items;
    operation.body = std::move(body);
    if (inputs_.bytes() > 0) operation.accesses.add(inputs_.access(AccessMode::read));
    for (const Memory& output : outputs_)
      if (output.bytes() > 0) operation.accesses.add(output.access(AccessMode::write));
    lane_.compute_->enqueue(std::move(operation));
  }

  bool is_cancelled() const override { return lane_.queue_.has_cancelled(watched_); }
  void set_value(std::any value) override { value_ = std::move(value); }
  WarmStore& warm_store() override { return lane_.store_; }
  void hold(std::shared_ptr<void> value) override { held_.push_back(std::move(value)); }

  /// Inputs to the device, in one allocation and one copy.
  void send_inputs() {
    constexpr std::uint64_t alignment = 256;
    std::uint64_t total = 0;
    given_ = ticket_->job.inputs;
    for (const JobInput& input : given_) {
      offsets_.push_back(total);
      total += (input.bytes().size() + alignment - 1) / alignment * alignment;
    }
    if (total == 0) return;
    inputs_ = Memory(*lane_.in_, total, fmt::format("inputs of job '{}'", ticket_->id));
    std::vector<CopyPiece> pieces;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const auto bytes = given_[i].bytes();
      if (!bytes.empty())
        pieces.push_back({static_cast<std::byte*>(inputs_.data()) + offsets_[i], bytes.data(), bytes.size()});
    }
    lane_.in_->enqueue(copy_operation("inputs of job '" + ticket_->id + "'", std::move(pieces),
                                      {inputs_.access(AccessMode::write)}));
    lane_.compute_->wait(lane_.in_->record());
    moved_in_ = total;
  }

  bool has_outputs() const { return !outputs_.empty(); }
  void fetch_outputs() {
    for (const Memory& output : outputs_) {
      const auto& places = ticket_->places;
      const std::size_t i = host_outputs_.size();
      const bool has_place = i < places.size() && places[i].size() == output.bytes();
      host_outputs_.emplace_back(has_place ? 0 : output.bytes());
      if (!places.empty()) ticket_->output_sizes.push_back(output.bytes());
      if (output.bytes() > 0)
        lane_.out_->enqueue(copy_operation("outputs of job '" + ticket_->id + "'",
                                           has_place ? places[i].data() : host_outputs_.back().data(),
                                           output.data(), output.bytes(), {output.access(AccessMode::read)}));
    }
  }

  std::exception_ptr error;  ///< of the call
  bool declined = false;     ///< there was none

 private:
  friend class JobLane;
  void check_input(std::size_t index) const {
    if (index >= given_.size())
      throw_usage(fmt::format("job '{}' has {} inputs, none of index {}", ticket_->id, given_.size(), index));
  }

  JobLane& lane_;
  std::shared_ptr<JobTicket> ticket_;
  JobAttempt watched_;  ///< without promises: to ask whether it still counts
  /// The job may end, and give its inputs up, while an attempt that is past its timeout still copies them.
  std::vector<JobInput> given_;
  Memory inputs_;
  std::vector<std::uint64_t> offsets_;
  std::vector<Memory> outputs_;
  std::vector<std::vector<std::byte>> host_outputs_;  ///< their bytes stay where they are
  std::vector<std::shared_ptr<void>> held_;
  std::any value_;
  std::uint64_t moved_in_ = 0;
};

}  // namespace shardwise
