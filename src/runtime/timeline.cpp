#include "shardwise/runtime/timeline.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

namespace shardwise {

void Timeline::set_devices(std::vector<std::string> names) {
  std::lock_guard lock(mutex_);
  devices_ = std::move(names);
}

void Timeline::start() {
  std::lock_guard lock(mutex_);
  records_.clear();
  origin_ = std::chrono::steady_clock::now().time_since_epoch().count();
  recording_ = true;
  held_ = false;
}

void Timeline::hold() {
  std::lock_guard lock(mutex_);
  if (holders_++ > 0 || recording_) return;
  records_.clear();
  origin_ = std::chrono::steady_clock::now().time_since_epoch().count();
  recording_ = true;
  held_ = true;
}

void Timeline::unhold() noexcept {
  std::lock_guard lock(mutex_);
  if (--holders_ > 0 || !held_) return;
  recording_ = false;
  held_ = false;
}

double Timeline::now() const {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(clock::now().time_since_epoch() - clock::duration(origin_.load()))
      .count();
}

void Timeline::add(TimelineRecord record) {
  std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
}

std::vector<TimelineRecord> Timeline::records() const {
  std::lock_guard lock(mutex_);
  return records_;
}

namespace {

using Interval = std::pair<double, double>;

double covered(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  double total = 0, reached = -1;
  for (const auto& [begin, end] : intervals) {
    if (end > reached) total += end - std::max(begin, reached);
    reached = std::max(reached, end);
  }
  return total;
}

}  // namespace

std::vector<TimelineSummary> Timeline::summary() const {
  std::vector<std::string> names;
  {
    std::lock_guard lock(mutex_);
    names = devices_;
  }
  for (const TimelineRecord& record : records())
    if (std::find(names.begin(), names.end(), record.device) == names.end()) names.push_back(record.device);
  std::vector<TimelineSummary> result;
  for (const std::string& name : names) result.push_back(summary_of(name, 0));
  return result;
}

double Timeline::latest() const {
  double end = 0;
  for (const TimelineRecord& record : records()) end = std::max(end, record.end_s);
  return end;
}

TimelineSummary Timeline::summary_of(const std::string& device, double since_s) const {
  TimelineSummary summary;
  summary.device = device;
  std::vector<TimelineRecord> own;
  double begin = 0, end = 0;
  bool first = true;
  for (const TimelineRecord& record : records()) {
    if (record.begin_s < since_s) continue;
    begin = first ? record.begin_s : std::min(begin, record.begin_s);
    end = first ? record.end_s : std::max(end, record.end_s);
    first = false;
    if (record.device == device) own.push_back(record);
  }
  std::sort(own.begin(), own.end(), [](const auto& a, const auto& b) { return a.begin_s < b.begin_s; });

  std::vector<Interval> launches, everything;
  std::map<std::string, double> gaps;  // before an operation, charged to the event that its stream waited for
  double reached = begin;
  for (const TimelineRecord& record : own) {
    everything.emplace_back(record.begin_s, record.end_s);
    if (record.kind == OperationKind::copy)
      (record.stream == "in" ? summary.bytes_in : summary.bytes_out) += record.bytes;
    else
      launches.push_back(everything.back());
    if (record.begin_s > reached && !record.waited_for.empty())
      gaps[record.waited_for] += record.begin_s - reached;
    reached = std::max(reached, record.end_s);
  }
  summary.busy_s = covered(launches);
  const double active = covered(everything);
  summary.transferring_s = active - summary.busy_s;
  summary.idle_s = (end - begin) - active;
  double longest = 0;
  for (const auto& [name, seconds] : gaps)
    if (seconds > longest) longest = seconds, summary.idle_waited_for = name;
  return summary;
}

void Timeline::write_chrome_trace(std::ostream& out) const {
  std::map<std::string, int> processes;
  std::map<std::pair<int, std::string>, int> threads;
  nlohmann::json events = nlohmann::json::array();
  for (const TimelineRecord& record : records()) {
    const auto [process, new_process] = processes.emplace(record.device, static_cast<int>(processes.size()));
    const int pid = process->second;
    if (new_process)
      events.push_back(
          {{"ph", "M"}, {"name", "process_name"}, {"pid", pid}, {"args", {{"name", record.device}}}});
    const auto [thread, new_thread] =
        threads.emplace(std::pair{pid, record.stream}, static_cast<int>(threads.size()));
    const int tid = thread->second;
    if (new_thread)
      events.push_back({{"ph", "M"},
                        {"name", "thread_name"},
                        {"pid", pid},
                        {"tid", tid},
                        {"args", {{"name", record.stream}}}});
    const char* category = record.kind == OperationKind::copy ? "copy" : "launch";
    events.push_back({{"ph", "X"},
                      {"name", record.name},
                      {"cat", category},
                      {"pid", pid},
                      {"tid", tid},
                      {"ts", record.begin_s * 1e6},
                      {"dur", (record.end_s - record.begin_s) * 1e6},
                      {"args", {{"bytes", record.bytes}, {"waited_for", record.waited_for}}}});
  }
  out << nlohmann::json{{"schema", 1}, {"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump() << '\n';
}

}  // namespace shardwise
