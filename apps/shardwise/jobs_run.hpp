#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "batch_file.hpp"
#include "job_options.hpp"
#include "job_record.hpp"
#include "run_folder.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shared_work.hpp"

namespace shardwise::program {

/// `shardwise jobs` as typed.
struct JobsText : JobText {
  std::string batch, program_cache;
  bool isolate = false;
};

/// One run of the command: the batch, and how far it is.
class JobsRun {
 public:
  JobsRun(const JobsText& text, std::vector<BatchJob> batch, const DeviceSet& devices, JobOptions options);

  /// Says what would be done (jobs_results.cpp).
  int dry_run() const;
  /// The exit code.
  int run();

 private:
  void read_source(const BatchJob& job);
  Job make_job(std::size_t index);
  bool is_settled(std::size_t index);
  bool is_news(std::size_t index, const std::optional<JobRecord>& record) const;
  bool is_to_begin(std::size_t index);
  void run_command(std::size_t index, JobContext& context);
  void on_result(std::size_t index, const JobResult& result);
  std::vector<std::size_t> wait_for_others(const std::vector<std::size_t>& undecided);
  void wait_while_others_work(std::vector<std::size_t> undecided);
  // What it says (jobs_results.cpp).
  bool any_failed() const;
  std::string table() const;
  int finish();

  const JobsText& text_;
  std::vector<BatchJob> batch_;
  DeviceSet devices_;
  JobOptions options_;
  std::unique_ptr<RunFolder> folder_;
  std::map<std::string, JobProgram> sources_;  ///< by file, kernel and options
  std::vector<std::optional<JobRecord>> records_;
  /// When those ended whose failure was on record at our start. Compared for equality only: clocks of
  /// processes may differ, and be set back.
  std::vector<std::optional<double>> failed_before_;
  FolderProblem folder_problem_;
  std::vector<int>
      exit_codes_;  ///< of what ran here; a worker writes, this thread reads once the job has ended
  std::vector<bool> ran_here_;
  std::set<std::size_t> out_of_reach_;  ///< those that no device of ours can do any more, and why
  std::string why_out_of_reach_;
  JobReport report_;  ///< of the rounds of this process, added up
  std::size_t kept_ = 0;
};

}  // namespace shardwise::program
