// Runs a sweep: takes what is kept, computes the rest, beside other processes.

#include "sweep.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <any>
#include <filesystem>
#include <utility>

#include "log.hpp"
#include "rank_work.hpp"
#include "signals.hpp"
#include "watched_jobs.hpp"

namespace shardwise::program {

namespace fs = std::filesystem;

Sweep::Sweep(const SweepText& text, std::vector<SweepItem> items, const DeviceSet& devices,
             JobOptions options)
    : text_(text),
      items_(std::move(items)),
      devices_(devices),
      options_(std::move(options)),
      folder_(open_folder_together(text.folder, "sweep", text.join)),
      cache_(text.cache.empty() ? folder_->path() / "cache" : fs::path(text.cache)),
      costs_(folder_->path() / ".shardwise" / "costs.json"),
      states_(items_.size()),
      scenes_("scenes") {}

void Sweep::write_folder(const SweepItem& item, const SweepEntry& entry) const {
  const fs::path place = folder_->path() / item.run.name;
  fs::create_directories(place);
  // What an earlier run of the name had and this one has not: the error map of several passes.
  for (const char* name : {"error-map.npy", "map.png", "map.pgw"})
    if (std::error_code ignored; !entry.file(name) && fs::is_regular_file(place / name, ignored))
      fs::remove(place / name, ignored);
  for (const auto& [name, bytes] : entry.files)
    if (read_if_there(place / name) != bytes) write_by_rename(place / name, bytes);
}

void Sweep::finish_unit(std::size_t first, RunState state, const SweepEntry* entry) {
  for (const std::size_t index : units_.at(items_[first].key)) {
    states_[index] = state;
    if (!entry) continue;
    states_[index].facts = entry->facts;
    write_folder(items_[index], *entry);
  }
}

bool Sweep::take_from_cache(std::size_t first, RunState::How how) {
  const SweepItem& item = items_[first];
  const SweepCache::Found found = cache_.find(item.key);
  if (found.state == SweepCache::State::damaged) {
    if (std::ranges::find(damaged_, item.run.name) == damaged_.end()) {
      log_warning(fmt::format("the kept result of run '{}' is damaged ({}); computing it again",
                              item.run.name, item.key.substr(0, 16)));
      damaged_.push_back(item.run.name);
    }
    return false;
  }
  if (found.state != SweepCache::State::good) return false;
  RunState state;
  state.how = how;
  finish_unit(first, state, &found.entry);
  return true;
}

std::uint64_t Sweep::cost_of(std::size_t index) const {
  const SweepItem& item = items_[index];
  return static_cast<std::uint64_t>(
      std::clamp(item.work() * costs_.ns(digest_of_files(*item.scene)), 1.0, 1e15));
}

Job Sweep::make_job(std::size_t index) {
  const SweepItem& item = items_[index];
  Job job;
  job.id = item.run.name;
  job.key = item.scene->key;
  job.cost = cost_of(index);
  job.bytes = item.bytes();
  job.admit = [this, index] {
    const std::string& key = items_[index].key;
    return folder_problem_.admits(
        [&] { return folder_->claim(key) && cache_.find(key).state != SweepCache::State::good; });
  };
  job.program = JobProgram::native(
      "coverage",
      [this, index](JobContext& context) { context.set_value(compute(items_[index], scenes_, context)); },
      true);
  return job;
}

void Sweep::on_result(std::size_t index, const JobResult& result) {
  const SweepItem& item = items_[index];
  RunState state;
  state.device = result.device;
  state.run_s = result.run_s;
  if (result.status == JobStatus::done) {
    const auto computed = std::any_cast<std::shared_ptr<SweepResult>>(result.value);
    const SweepEntry entry = entry_of(item, *computed);
    // The cache first: with it the run is done, for others too.
    cache_.keep(item.key, entry);
    state.how = RunState::How::computed;
    finish_unit(index, state, &entry);
    costs_.learn(digest_of_files(*item.scene), computed->run.seconds * 1e9 / item.work());
    costs_.write();
  } else if (result.status == JobStatus::failed && result.error->error_class != ErrorClass::interrupted) {
    state.how = RunState::How::failed;
    state.error = result.error->message;
    log_warning(state.error);
    finish_unit(index, state, nullptr);
  }
  folder_->give_up(item.key);
}

Sweep::Indices Sweep::wait_for_others(const Indices& undecided) {
  return wait_for_units(
      undecided, "runs",
      [this](std::size_t index) { return take_from_cache(index, RunState::How::elsewhere); },
      [this](std::size_t index) { return folder_->owner_of(items_[index].key).has_value(); });
}

int Sweep::run() {
  for (std::size_t i = 0; i < items_.size(); ++i) units_[items_[i].key].push_back(i);
  Indices todo;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (units_.at(items_[i].key).front() != i) continue;
    if (!take_from_cache(i, RunState::How::from_cache)) todo.push_back(i);
  }
  std::vector<std::uint64_t> costs;
  for (std::size_t i = 0; i < items_.size(); ++i) costs.push_back(cost_of(i));
  Indices left = todo;  // nobody is known to have done
  todo = units_of_this_rank(todo, costs, devices_.size());
  if (!left.empty()) {
    Indices running;
    JobOptions options = options_;
    options.on_result = [&](std::size_t i, const JobResult& result) { on_result(running[i], result); };
    WatchedJobs jobs(devices_, std::move(options), "sweep", "runs", folder_problem_);
    while (!left.empty()) {
      running = todo;
      std::vector<Job> batch;
      for (const std::size_t index : running) batch.push_back(make_job(index));
      if (!batch.empty()) {
        const JobReport round = jobs.run(std::move(batch));
        add_up(report_, round);
      }
      std::erase_if(left, [this](std::size_t index) { return states_[index].how != RunState::How::open; });
      const bool failed = std::ranges::any_of(
          states_, [](const RunState& state) { return state.how == RunState::How::failed; });
      if (stop_requested() || (text_.fail_fast && failed)) break;
      todo = left = wait_for_others(left);
    }
  }
  return finish();
}

}  // namespace shardwise::program
