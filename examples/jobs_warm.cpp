// A stream of jobs with keys: the same key goes to the same device, which keeps what it made for it. A job
// that a device loses runs elsewhere. On simulated devices, in virtual time.

#include <cstdio>
#include <string>

#include "shardwise/jobs/device_cache.hpp"
#include "shardwise/jobs/executor.hpp"

int main() {
  using namespace shardwise;
  JobOptions options;
  options.placer.hash = ContentHash::rendezvous;
  options.placer.spill_threshold = 20;
  JobExecutor executor(open_devices("sim:3"), options);

  struct Model {
    std::string name;
  };
  DeviceCache<Model> models("models");
  int built = 0;
  const JobProgram answer = JobProgram::native("answer", [&](JobContext& job) {
    const auto model = models.get(job, job.job().key, 1000, [&] {
      ++built;  // expensive: once for each device that answers for this model
      return Model{job.job().key};
    });
    if (job.device_index() == 1 && job.job().id == "150") throw Error(ErrorClass::lost, "the device is gone");
    job.launch("answer", 1000, [](LaunchContext&) {});
    job.set_value(model->name + " answers " + job.job().id);
  });

  int given = 0, answered = 0;
  executor.stream(
      [&]() -> std::optional<Job> {
        if (given == 600) return std::nullopt;
        Job job;
        job.id = std::to_string(given);
        job.key = "model " + std::to_string(given++ % 7);
        job.program = answer;
        return job;
      },
      [&](JobResult result) { answered += result.status == JobStatus::done; }, ResultOrder::submission);
  std::printf("%d of %d answered\n", answered, given);
  std::printf("seven models, built %s\n", built <= 7 * 3 ? "once on a device at most" : "too often");
}
