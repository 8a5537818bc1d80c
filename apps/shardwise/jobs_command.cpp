// shardwise jobs: commands and CUDA programs of a file as jobs on the devices.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "batch_file.hpp"
#include "command.hpp"
#include "job_options.hpp"
#include "job_worker.hpp"
#include "jobs_run.hpp"
#include "log.hpp"
#include "rank_arguments.hpp"
#include "ranks.hpp"

namespace shardwise::program {
namespace {

int run(const JobsText& text) {
  if (text.batch.empty()) throw_usage("jobs needs a batch file; see 'shardwise jobs --help'");
  if (text.folder.empty() && !text.dry_run) throw_usage("jobs needs a folder for its results; give -o DIR");
  if (!text.json.empty() && is_first_rank()) check_output(text.json, "--json");
  std::vector<BatchJob> batch = read_batch(text.batch);
  std::string contents;
  for (const BatchJob& job : batch) contents += job.id + '\0' + job.digest + '\0';
  require_same_contents(fmt::format("the batch '{}'", text.batch), contents);
  const DeviceSet devices = open(text.devices);
  JobOptions options = job_options_of(text, devices.size());
  options.program_cache = text.program_cache;
  if (text.isolate && std::ranges::any_of(batch, [](const BatchJob& job) { return job.cuda.has_value(); })) {
    options.isolate = JobIsolation::process;
    options.worker_command = job_worker_command();
  } else if (text.isolate && is_first_rank()) {
    log_note("--isolate changes nothing: all jobs are commands, which are processes anyway");
  }
  JobsRun jobs(text, std::move(batch), devices, std::move(options));
  if (text.dry_run) return is_first_rank() ? jobs.dry_run() : 0;
  return jobs.run();
}

}  // namespace

void add_jobs(Commands& commands, CLI::App& root) {
  const auto text = std::make_shared<JobsText>();
  CLI::App* app =
      add_command(commands, root, "jobs", "Commands and CUDA programs of a file, as jobs on the devices",
                  "shardwise jobs batch.jsonl -o results --devices host:4x1");
  app->add_option("batch", text->batch, "One JSON object a line: {\"id\": \"a\", \"command\": [\"true\"]}")
      ->type_name("BATCH.jsonl");
  add_job_options(*app, *text);
  app->add_option("--program-cache", text->program_cache, "Folder for compiled CUDA programs (none)")
      ->type_name("DIR")
      ->group("Jobs");
  app->add_flag("--isolate", text->isolate,
                "CUDA programs in a worker process for each GPU: one that faults or hangs costs no other its "
                "result and no GPU. For programs that are not proven; commands are processes anyway")
      ->group("Jobs");
  commands.actions[app] = [text] { return run(*text); };
  commands.on_all_ranks.insert(app);
}

}  // namespace shardwise::program
