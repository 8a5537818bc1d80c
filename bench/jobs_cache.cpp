// Warm state on devices: how often a job finds it, by how jobs are placed.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/jobs_parts.hpp"
#include "shardwise/jobs/device_cache.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise::bench {
namespace {

/// 64 keys of which a device keeps 20; making one takes 20 times as long as a job.
std::pair<double, double> cached_run(JobPlacement placement, std::size_t count) {
  OpenOptions open;
  open.sim_costs.ns_per_item = 1000;
  JobOptions options;
  options.placement = placement;
  options.memory_bytes = 20;
  options.placer.hash = ContentHash::rendezvous;
  options.placer.spill_threshold = 2000;
  JobExecutor executor(open_devices("sim:4", open), options);
  DeviceCache<int> cache("values");
  const JobProgram program = JobProgram::native("cached", [&cache](JobContext& job) {
    std::int64_t items = 100;
    cache.get(job, job.job().key, 1, [&] {
      items += 2000;
      return 0;
    });
    job.launch("work", items, [](LaunchContext&) {});
  });
  Draw draw(5);
  std::vector<Job> jobs(count);
  for (Job& job : jobs) {
    job.program = program;
    job.key = fmt::format("key {}", static_cast<int>(64 * draw.unit()));
    job.cost = 100;
  }
  executor.run(std::move(jobs));
  const JobReport report = executor.report();
  std::uint64_t hits = 0, misses = 0;
  for (const JobDeviceReport& device : report.devices)
    hits += device.cache_hits, misses += device.cache_misses;
  return {report.makespan_s, static_cast<double>(hits) / static_cast<double>(hits + misses)};
}

Case cache_case(bool quick) {
  const std::size_t count = quick ? 1000 : 10'000;
  auto rates = std::make_shared<std::pair<double, double>>();
  Case work;
  work.name = "device-cache";
  work.work = fmt::format(
      "{} jobs of 64 keys, 20 kept on a device: placed by content, against LPT, virtual time", count);
  work.devices = "sim:4";
  work.all = [=] {
    const auto [seconds, rate] = cached_run(JobPlacement::by_content, count);
    rates->first = rate;
    return seconds;
  };
  work.one = [=] {
    const auto [seconds, rate] = cached_run(JobPlacement::by_cost, count);
    rates->second = rate;
    return seconds;
  };
  work.note_after = [rates] {
    return fmt::format("hits {:.1f} %, by LPT {:.1f} %", 100 * rates->first, 100 * rates->second);
  };
  return work;
}

/// A table on its device: made by an allocation and a copy, as warm state is.
struct Table {
  Table(Device& device, const std::vector<float>& values)
      : stream(device.create_stream("table")), data(*stream, values.size(), "table") {
    stream->enqueue(copy_operation("fill table", data.data(), values.data(), data.bytes(), {data.writes()}));
    stream->synchronize();
  }
  std::unique_ptr<Stream> stream;
  Buffer<float> data;
};

/// The same on the devices given, with tables of 1 MiB in their memory: of 64 keys a device keeps a quarter
/// more than its share. Makespan and share of hits.
std::pair<double, double> cached_run_here(const std::string& devices, JobPlacement placement,
                                          std::size_t count) {
  constexpr std::size_t keys = 64;
  const std::vector<float> values(1 << 18, 1.0f);
  const std::uint64_t bytes = values.size() * sizeof(float);
  const DeviceSet set = open_any(devices);
  JobOptions options;
  options.placement = placement;
  const auto share = static_cast<double>(keys) / set.size();
  options.memory_bytes = static_cast<std::uint64_t>(std::ceil(1.25 * share)) * bytes;
  options.placer.hash = ContentHash::rendezvous;
  options.placer.spill_threshold = 2000;
  JobExecutor executor(set, options);
  DeviceCache<Table> cache("tables");
  const JobProgram program = JobProgram::native("cached", [&](JobContext& job) {
    const auto table =
        cache.get(job, job.job().key, bytes, [&] { return std::make_shared<Table>(job.device(), values); });
    job.launch("work", 1, [table](LaunchContext&) {});
  });
  Draw draw(5);
  std::vector<Job> jobs(count);
  for (Job& job : jobs) {
    job.program = program;
    job.key = fmt::format("key {}", static_cast<int>(static_cast<double>(keys) * draw.unit()));
    job.cost = 100;
  }
  const auto start = Clock::now();
  executor.run(std::move(jobs));
  const double seconds = seconds_since(start);
  const JobReport report = executor.report();
  std::uint64_t hits = 0, misses = 0;
  for (const JobDeviceReport& device : report.devices)
    hits += device.cache_hits, misses += device.cache_misses;
  return {seconds,
          static_cast<double>(hits) / static_cast<double>(std::max<std::uint64_t>(1, hits + misses))};
}

Case cache_here_case(const Settings& settings) {
  const std::size_t count = settings.quick ? 500 : 10'000;
  auto rates = std::make_shared<std::pair<double, double>>();
  Case work;
  work.name = "device-cache-here";
  work.work = fmt::format(
      "{} jobs of 64 keys, tables of 1 MiB, a device keeps 1.25 of its share: placed by content, against LPT",
      count);
  work.devices = settings.devices;
  work.units = static_cast<double>(count);
  work.all = [=, devices = settings.devices] {
    const auto [seconds, rate] = cached_run_here(devices, JobPlacement::by_content, count);
    rates->first = rate;
    return seconds;
  };
  work.one = [=, devices = settings.devices] {
    const auto [seconds, rate] = cached_run_here(devices, JobPlacement::by_cost, count);
    rates->second = rate;
    return seconds;
  };
  work.note_after = [rates] {
    return fmt::format("hits {:.1f} %, by LPT {:.1f} %", 100 * rates->first, 100 * rates->second);
  };
  return work;
}

}  // namespace

std::vector<Case> job_cache_cases(const Settings& settings) {
  return {cache_case(settings.quick), cache_here_case(settings)};
}

}  // namespace shardwise::bench
