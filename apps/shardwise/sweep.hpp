#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "job_options.hpp"
#include "run_folder.hpp"
#include "shared_work.hpp"
#include "sweep_cache.hpp"
#include "sweep_costs.hpp"
#include "sweep_run.hpp"

namespace shardwise::program {

/// `shardwise sweep` as typed.
struct SweepText : JobText {
  std::string plan, cache;
};

/// What became of one run.
struct RunState {
  enum class How { open, from_cache, computed, elsewhere, failed } how = How::open;
  std::string device, error;
  double run_s = 0;
  Json facts;
};

/// The runs of a plan, as jobs: those of one key once, and none that is kept already.
class Sweep {
 public:
  Sweep(const SweepText& text, std::vector<SweepItem> items, const DeviceSet& devices, JobOptions options);

  /// The exit code.
  int run();

 private:
  using Indices = std::vector<std::size_t>;
  bool take_from_cache(std::size_t first, RunState::How how);
  Job make_job(std::size_t index);
  std::uint64_t cost_of(std::size_t index) const;
  void on_result(std::size_t index, const JobResult& result);
  void finish_unit(std::size_t first, RunState state, const SweepEntry* entry);
  Indices wait_for_others(const Indices& undecided);
  void write_folder(const SweepItem& item, const SweepEntry& entry) const;
  // What it says (sweep_results.cpp).
  std::string table() const;
  void write_overview();
  void warn_of_warnings() const;
  int finish();

  const SweepText& text_;
  std::vector<SweepItem> items_;
  DeviceSet devices_;
  JobOptions options_;
  std::unique_ptr<RunFolder> folder_;
  SweepCache cache_;
  CostBook costs_;
  std::vector<RunState> states_;
  SweepScenes scenes_;
  std::map<std::string, Indices> units_;  ///< runs by key: those of one key are computed once
  std::vector<std::string> damaged_;
  FolderProblem folder_problem_;
  JobReport report_;
};

}  // namespace shardwise::program
