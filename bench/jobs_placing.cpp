// Placement of jobs: how fast it is, and how near its makespans come to what is possible.

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <memory>
#include <thread>

#include "bench/jobs_parts.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shardwise/shard/lpt.hpp"

namespace shardwise::bench {
namespace {

Case lpt_case(bool quick) {
  const std::size_t count = quick ? 100'000 : 1'000'000;
  auto items = std::make_shared<std::vector<CostItem>>(count);
  Draw draw(1);
  for (std::size_t i = 0; i < count; ++i)
    (*items)[i] = {i, static_cast<std::uint64_t>(1000 * std::exp(draw.normal())) + 1};
  auto ratio = std::make_shared<double>();
  Case work;
  work.name = "lpt";
  work.work = fmt::format("LPT of {} items on 8 devices", count);
  work.units = static_cast<double>(count);
  work.all = [items, ratio] {
    std::vector<DeviceLoad> devices;
    for (int d = 0; d < 8; ++d) devices.push_back({d});
    const auto start = Clock::now();
    *ratio = partition_lpt(devices, *items).ratio;
    return seconds_since(start);
  };
  work.note_after = [ratio] { return fmt::format("makespan {:.6f} of the bound", *ratio); };
  return work;
}

Case placement_case(bool quick, ContentHash hash, const char* name) {
  const std::size_t count = quick ? 50'000 : 1'000'000;
  auto keys = std::make_shared<std::vector<std::string>>();
  for (std::size_t i = 0; i < count; ++i) keys->push_back(fmt::format("{:032d}", i * 2654435761u % 1000003));
  Case work;
  work.name = fmt::format("placement-{}", name);
  work.work = fmt::format("{} keys of 32 bytes on 8 devices, {}, bounded, one core", count, name);
  work.units = static_cast<double>(count);
  work.all = [keys, hash] {
    std::vector<PlacementDevice> devices;
    for (int d = 0; d < 8; ++d) devices.push_back({fmt::format("GPU-{}", d)});
    PlacerOptions options;
    options.hash = hash;
    options.spill_threshold = 1000;
    StreamPlacer placer(devices, options);
    const auto start = Clock::now();
    for (const std::string& key : *keys) placer.place(key, 1);
    return seconds_since(start);
  };
  return work;
}

struct CostList {
  const char* name;
  std::function<double(Draw&, std::size_t)> cost;
};
const CostList kLists[] = {
    {"uniform", [](Draw& draw, std::size_t) { return 1 + 99 * draw.unit(); }},
    {"lognormal", [](Draw& draw, std::size_t) { return 20 * std::exp(draw.normal()); }},
    {"pareto", [](Draw& draw, std::size_t) { return 10 * std::pow(draw.unit(), -1 / 1.5); }},
    {"giant", [](Draw& draw, std::size_t i) { return i == 0 ? 2000 : 10 + 10 * draw.unit(); }},
    {"equal", [](Draw&, std::size_t) { return 50.0; }},
    {"two-modes", [](Draw& draw, std::size_t) { return draw.unit() < 0.9 ? 5.0 : 200.0; }}};

/// Jobs of these lengths on 8 sim devices: the makespan, and the bound of those very lengths.
std::pair<double, double> virtual_makespan(const CostList& list, std::size_t count, bool wrong) {
  Draw draw(11);
  auto length = std::make_shared<std::vector<std::int64_t>>();
  std::vector<Job> jobs(count);
  const JobProgram program = JobProgram::native("work", [length](JobContext& job) {
    job.launch("work", (*length)[std::stoul(job.job().id)], [](LaunchContext&) {});
  });
  std::vector<std::uint64_t> lengths;
  std::vector<DeviceLoad> devices;
  for (int d = 0; d < 8; ++d) devices.push_back({d});
  for (std::size_t i = 0; i < count; ++i) {
    const double cost = list.cost(draw, i) * 1000;
    length->push_back(static_cast<std::int64_t>(cost));
    lengths.push_back(static_cast<std::uint64_t>(cost));
    jobs[i].id = std::to_string(i);
    jobs[i].program = program;
    jobs[i].cost = static_cast<std::uint64_t>(cost * (wrong ? std::exp(0.7 * draw.normal()) : 1)) + 1;
  }
  OpenOptions open;
  open.sim_costs.ns_per_item = 1000;
  open.sim_costs.launch_latency_s = 0;
  JobExecutor executor(open_devices("sim:8", open));
  executor.run(std::move(jobs));
  return {executor.report().makespan_s, makespan_lower_bound(devices, lengths) * 1e-6};
}

Case makespan_case(const CostList& list, bool wrong, bool quick) {
  const std::size_t count = quick ? 200 : 1000;
  auto last = std::make_shared<std::pair<double, double>>();
  Case work;
  work.name = fmt::format("makespan-{}-{}", list.name, wrong ? "wrong" : "exact");
  work.work = fmt::format("{} jobs, {} costs, estimates {}, virtual time, against the lower bound", count,
                          list.name, wrong ? "off by e^(0.7 N(0,1))" : "exact");
  work.devices = "sim:8";
  work.all = [=, &list] {
    *last = virtual_makespan(list, count, wrong);
    return last->first;
  };
  work.one = [last] { return last->second > 0 ? last->second : 1.0; };
  work.note_after = [last] { return fmt::format("{:.4f} of the bound", last->first / last->second); };
  return work;
}

}  // namespace

std::vector<Case> job_placing_cases(const Settings& settings) {
  return {lpt_case(settings.quick), placement_case(settings.quick, ContentHash::modulo, "modulo"),
          placement_case(settings.quick, ContentHash::rendezvous, "rendezvous")};
}

std::vector<Case> virtual_makespan_cases(const Settings& settings) {
  std::vector<Case> cases;
  for (const bool wrong : {false, true})
    for (const CostList& list : kLists) cases.push_back(makespan_case(list, wrong, settings.quick));
  return cases;
}

Case sleeping_case(const Settings& settings) {
  const std::size_t count = settings.quick ? 400 : 10'000;
  auto last = std::make_shared<std::pair<double, double>>();
  Case work;
  work.name = "lognormal-10k";
  work.work =
      fmt::format("{} jobs that sleep, lognormal, median 2 ms, on 8 host devices, against the bound", count);
  work.devices = "host:8x1";
  work.all = [=] {
    JobExecutor executor(open_devices("host:8x1"));
    const JobProgram program = JobProgram::native(
        "sleep",
        [](JobContext& job) { std::this_thread::sleep_for(std::chrono::nanoseconds(job.job().cost)); }, true);
    Draw draw(9);
    std::vector<Job> jobs(count);
    for (Job& job : jobs) {
      job.program = program;
      job.cost = static_cast<std::uint64_t>(2e6 * std::exp(draw.normal()));
    }
    executor.run(std::move(jobs));
    const JobReport report = executor.report();
    *last = {report.makespan_s, report.lower_bound_s};
    return report.makespan_s;
  };
  work.one = [last] { return last->second > 0 ? last->second : 1.0; };
  work.note_after = [last] { return fmt::format("{:.4f} of the bound", last->first / last->second); };
  return work;
}

}  // namespace shardwise::bench
