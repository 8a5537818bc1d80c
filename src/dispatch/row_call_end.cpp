// The end of a call on rows: partial results, counters, the report, and what the call teaches.

#include <algorithm>
#include <utility>

#include "dispatch/row_call.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

void RowCall::add_reduction() {
  if (sink_.kind != SinkKind::reduce) return;
  const std::uint64_t bytes = sink_.reducer.partial_bytes;
  if (states_.empty()) return;
  OnDevice& first = states_.front();
  const bool works = first.device == 0;
  void* total = works ? static_cast<void*>(first.sums.data(first.partial)) : master_partial_.data();
  const auto touch_total = [&](AccessMode mode) {
    return works ? first.sums.access(mode, first.partial) : master_partial_.access(mode);
  };
  if (!works)
    graph_.add(0, StreamRole::compute,
               zero_operation("clear partial", total, bytes, {touch_total(AccessMode::write)}));
  for (std::size_t i = 0; i < states_.size(); ++i) {
    OnDevice& on = states_[i];
    if (on.device == 0) continue;
    Memory& incoming = incoming_[i];
    graph_.add(
        on.device, StreamRole::copy_out,
        copy_operation("send partial", incoming.data(), on.sums.data(on.partial), bytes,
                       {incoming.access(AccessMode::write), on.sums.access(AccessMode::read, on.partial)}));
    Operation merge;
    merge.name = "merge partial";
    merge.accesses = {incoming.access(AccessMode::read), touch_total(AccessMode::write)};
    merge.body = [merge_rows = sink_.reducer.merge, into = total,
                  from = incoming.data()](LaunchContext& context) { merge_rows(context, into, from); };
    graph_.add(0, StreamRole::compute, std::move(merge));
  }
  std::byte* host = static_cast<std::byte*>(landing_.get()) + states_.size() * sizeof(RowCounters);
  graph_.add(0, StreamRole::compute,
             copy_operation("reduced to host", host, total, bytes, {touch_total(AccessMode::read)}));
}

void RowCall::add_counters() {
  if (failover_) return;  // each chunk has a snapshot
  auto* host = static_cast<RowCounters*>(landing_.get());
  for (OnDevice& on : states_) {
    graph_.add(on.device, StreamRole::compute,
               copy_operation("row counters to host", host++, counters_of(on), sizeof(RowCounters),
                              {counters_access(on, AccessMode::read)}));
    if (on.kept) graph_.add(on.device, StreamRole::compute, on.kept->clear_behind());
  }
}

double RowCall::seconds_of(int node) const {
  const auto [begin, end] = session_->times(node);
  return begin.state() && end.state() ? seconds_between(begin, end) : 0;
}

/// The first call of a kind meets GPUs that were idle and memory that is new, each to its own degree. For the
/// next split a GPU's copies are as fast as the fastest of them, and GPUs of one model compute as fast as the
/// fastest chunk of theirs says. Host and sim devices are what they were measured to be.
void RowCall::level_first(std::vector<DeviceSample>& samples) const {
  const DeviceSet& devices = executor_.devices();
  const auto operation_of = [&](int node) -> const Operation& {
    return graph_.nodes()[static_cast<std::size_t>(node)].operation;
  };
  const auto lower = [](double& least, double value) {
    if (value > 0 && (least == 0 || value < least)) least = value;
  };
  std::vector<double> row_s(samples.size(), 0);  // of the fastest chunk
  for (const OnDevice& on : states_) {
    if (devices[on.device].kind() != PlatformKind::cuda || on.chunks == 0) continue;
    DeviceSample& sample = samples[static_cast<std::size_t>(on.device)];
    const auto level_copies = [&](const std::vector<int>& copies, double& seconds) {
      double byte_s = 0;
      std::uint64_t bytes = 0;
      for (const int node : copies) {
        bytes += operation_of(node).bytes;
        lower(byte_s,
              seconds_of(node) / static_cast<double>(std::max<std::uint64_t>(1, operation_of(node).bytes)));
      }
      seconds = std::min(seconds, byte_s * static_cast<double>(bytes));
    };
    level_copies(on.copies_in, sample.in_s);
    level_copies(on.copies_out, sample.out_s);
    // A chunk has one launch, or also one that makes its rows, and one that folds them.
    const std::size_t each = on.launches.size() / static_cast<std::size_t>(on.chunks);
    for (std::size_t first = 0; first + each <= on.launches.size() && each > 0; first += each) {
      double seconds = 0;
      for (std::size_t i = first; i < first + each; ++i) seconds += seconds_of(on.launches[i]);
      const std::int64_t rows = operation_of(on.launches[first]).items;
      if (rows > 0) lower(row_s[static_cast<std::size_t>(on.device)], seconds / static_cast<double>(rows));
    }
  }
  for (std::size_t d = 0; d < samples.size(); ++d)
    for (std::size_t other = 0; other < samples.size(); ++other) {
      const bool alike =
          devices[static_cast<int>(d)].info().model == devices[static_cast<int>(other)].info().model;
      if (row_s[d] > 0 && row_s[other] > 0 && alike && !samples[d].direct && !samples[other].direct)
        samples[d].compute_s =
            std::min(samples[d].compute_s, row_s[other] * static_cast<double>(samples[d].rows));
    }
}

void RowCall::learn_from(RowResult& result) {
  const DeviceSet& devices = executor_.devices();
  std::vector<DeviceSample> samples(static_cast<std::size_t>(devices.size()));
  result.dispatch.chunk_count = 0;
  for (const OnDevice& on : states_) {
    DeviceSample& sample = samples[static_cast<std::size_t>(on.device)];
    const auto sum = [&](const std::vector<int>& nodes) {
      double seconds = 0;
      for (const int node : nodes) seconds += seconds_of(node);
      return seconds;
    };
    sample.rows += on.rows;
    sample.direct = plan_.mode == DispatchMode::direct && on.device != 0;
    sample.compute_s += sum(on.launches);
    sample.in_s += sum(on.copies_in);
    sample.out_s += sum(on.copies_out);
    DeviceReport& entry = result.dispatch.devices[static_cast<std::size_t>(on.device)];
    entry.lanes = sample.rows;
    entry.compute_s = entry.busy_s = sample.compute_s;
    entry.copy_in_s = sample.in_s;
    entry.copy_out_s = sample.out_s;
    entry.peak_bytes = devices[on.device].memory(MemoryUse::work).peak();
    const auto bytes_of = [&](const std::vector<int>& nodes) {
      std::uint64_t bytes = 0;
      for (const int node : nodes) bytes += graph_.nodes()[static_cast<std::size_t>(node)].operation.bytes;
      return bytes;
    };
    entry.bytes_in += bytes_of(on.copies_in);
    entry.bytes_out += bytes_of(on.copies_out);
    result.dispatch.chunk_count += on.chunks;
  }
  if (!learned_.find(key_)) level_first(samples);
  const double total = entered_.state() && left_.state() ? seconds_between(entered_, left_) : 0;
  result.dispatch.measured_s = total;
  for (const DeviceSample& sample : samples) {
    DeviceReport& entry = result.dispatch.devices[static_cast<std::size_t>(&sample - samples.data())];
    entry.idle_s = std::max(0.0, total - entry.busy_s);
  }
  if (devices.size() > 1) {
    if (sampled_)
      learned_.learn(key_, plan_.mode, samples, total);
    else
      learned_.count(key_);
  }
}

RowResult RowCall::finish() {
  LapClock clock;
  try {
    run_.wait();
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
  if (error_) std::rethrow_exception(error_);
  left_.wait_on_host();
  // A caller who has the result has the memory back, too.
  for (const Event& freed : freed_) freed.wait_on_host();
  stamps_.wait_s += clock.lap();
  RowResult result;
  result.table = std::move(table_);
  result.rows = rows_;
  const auto* counters = static_cast<const RowCounters*>(landing_.get());
  for (std::size_t i = 0; i < states_.size() && !failover_; ++i) {
    result.rejected += static_cast<std::int64_t>(counters[i].rejected);
    result.flagged += static_cast<std::int64_t>(counters[i].flagged);
  }
  if (sink_.kind == SinkKind::reduce) {
    const auto* reduced = reinterpret_cast<const std::byte*>(counters + states_.size());
    result.reduced.assign(reduced, reduced + sink_.reducer.partial_bytes);
  }
  plan_.complete();
  result.dispatch = plan_.report;
  if (failover_) sum_delivered(result);
  if (survived_.empty()) learn_from(result);
  stamps_.finish_s = clock.lap();
  return result;
}

}  // namespace shardwise
