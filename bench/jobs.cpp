#include "bench/jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "shardwise/jobs/device_cache.hpp"
#include "shardwise/jobs/executor.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/shard/lpt.hpp"

namespace shardwise::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Raw bits only: the same lists on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  double unit() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(unit())) * std::cos(6.283185307179586 * unit()); }

 private:
  std::mt19937_64 engine_;
};

// --- placement ---

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

// --- the cost of a job ---

// Names of their own: worker processes know twins by them.
constexpr const char* kSpin = "shardwise_bench_spin";
constexpr const char* kCopy = "shardwise_bench_copy";

void spin_here(JobContext& job) {
  std::int64_t ns = 0;
  std::memcpy(&ns, job.job().launch.scalars.at(0).data(), sizeof ns);
  job.launch("spin", 1, [ns](LaunchContext&) {
    const auto start = Clock::now();
    while (Clock::now() - start < std::chrono::nanoseconds(ns)) {
    }
  });
}

void copy_here(JobContext& job) {
  const std::uint64_t bytes = job.input_bytes(0);
  const auto* in = job.input<std::byte>(0);
  auto* out = job.output<std::byte>(bytes);
  job.launch("copy", static_cast<std::int64_t>(bytes), [=](LaunchContext&) { std::memcpy(out, in, bytes); });
}

/// A job that keeps its device busy for `ns`, and nothing else.
JobProgram spin_program() {
  CudaSource source;
  source.name = "spin.cu";
  source.text =
      "extern \"C\" __global__ void shardwise_bench_spin(long long ns) {\n"
      "  long long begin, now;\n"
      "  asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(begin));\n"
      "  do asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now));\n"
      "  while (now - begin < ns);\n"
      "}\n";
  source.kernel = kSpin;
  source.host_twin = spin_here;
  return JobProgram::source(std::move(source));
}

/// A job that copies its input, words of 16 bytes, to its output.
JobProgram copy_program() {
  CudaSource source;
  source.name = "copy.cu";
  source.text =
      "extern \"C\" __global__ void shardwise_bench_copy(const uint4* in, uint4* out, long long count) {\n"
      "  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
      "  if (i < count) out[i] = in[i];\n"
      "}\n";
  source.kernel = kCopy;
  source.host_twin = copy_here;
  return JobProgram::source(std::move(source));
}

std::vector<Job> spinning(const JobProgram& program, std::size_t count, std::int64_t ns) {
  std::vector<Job> jobs(count);
  for (Job& job : jobs) {
    job.program = program;
    job.launch.scalars = {job_scalar(ns)};
  }
  return jobs;
}

struct Executor {
  explicit Executor(const std::string& devices) : jobs(open(devices)) {}
  static DeviceSet open(const std::string& devices) {
    OpenOptions options;
    options.allow_mixed = true;
    return open_devices(devices, options);
  }
  JobExecutor jobs;
  JobProgram spin = spin_program();
};

/// The same launches, without jobs: on one stream of each device.
double bare_launches(const DeviceSet& devices, std::size_t count) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int d = 0; d < devices.size(); ++d) streams.push_back(devices[d].create_stream("bare"));
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (auto& stream : streams)
    threads.emplace_back([&stream, each = count / streams.size()] {
      for (std::size_t i = 0; i < each; ++i) {
        Operation operation;
        operation.name = "empty";
        operation.body = [](LaunchContext&) {};
        stream->enqueue(std::move(operation));
      }
      stream->synchronize();
    });
  for (std::thread& thread : threads) thread.join();
  return seconds_since(start);
}

Case empty_job_case(const Settings& settings, const std::shared_ptr<Executor>& executor) {
  const std::size_t count = settings.quick ? 2'000 : 50'000;
  const JobProgram empty =
      JobProgram::native("empty", [](JobContext& job) { job.launch("empty", 1, [](LaunchContext&) {}); });
  auto best = std::make_shared<std::pair<double, double>>(1e9, 1e9);
  Case work;
  work.name = "empty-job";
  work.work =
      fmt::format("{} native jobs that launch nothing, against the same launches without jobs", count);
  work.devices = executor->jobs.devices().spec();
  work.units = static_cast<double>(count);
  work.all = [=] {
    std::vector<Job> jobs(count);
    for (Job& job : jobs) job.program = empty;
    const auto start = Clock::now();
    executor->jobs.run(std::move(jobs));
    const double seconds = seconds_since(start);
    best->first = std::min(best->first, seconds);
    return seconds;
  };
  work.one = [=] {
    const double seconds = bare_launches(executor->jobs.devices(), count);
    best->second = std::min(best->second, seconds);
    return seconds;
  };
  work.note_after = [=] {
    const auto devices = static_cast<double>(executor->jobs.devices().size());
    return fmt::format("{:.2f} us of each device for a job above the bare launch",
                       (best->first - best->second) / static_cast<double>(count) * 1e6 * devices);
  };
  return work;
}

/// Share of the devices' time that jobs of this length keep busy.
double efficiency(Executor& executor, std::int64_t ns, double seconds) {
  const auto devices = static_cast<double>(executor.jobs.devices().size());
  const auto count =
      static_cast<std::size_t>(std::clamp(seconds * 1e9 / static_cast<double>(ns), 200.0, 20000.0) * devices);
  std::vector<Job> jobs = spinning(executor.spin, count, ns);
  const auto start = Clock::now();
  executor.jobs.run(std::move(jobs));
  return static_cast<double>(count) * static_cast<double>(ns) * 1e-9 / (seconds_since(start) * devices);
}

Case metg_case(const Settings& settings, const std::shared_ptr<Executor>& executor) {
  Case work;
  work.name = "metg";
  work.work = "the shortest job that keeps the devices busy for half of the time (METG 50 %)";
  work.devices = executor->jobs.devices().spec();
  work.all = [executor, span = settings.quick ? 0.01 : 0.1] {
    // Bisection on a scale of logarithms, 100 ns to 3 ms.
    double low = 100, high = 3e6;
    while (high / low > 1.1) {
      const double middle = std::sqrt(low * high);
      (efficiency(*executor, static_cast<std::int64_t>(middle), span) >= 0.5 ? high : low) = middle;
    }
    return high * 1e-9;
  };
  return work;
}

/// An executor of the first device that runs jobs in a worker process, and one that does not. Made by the
/// first case that runs.
struct IsolatedPair {
  explicit IsolatedPair(std::string devices) : devices_(std::move(devices)) {}
  static JobOptions worker_options() {
    JobOptions options;
    options.isolate = JobIsolation::process;
    options.worker_command = {"/proc/self/exe", "job-worker"};
    return options;
  }
  double seconds(bool isolated, std::vector<Job> jobs) {
    std::optional<JobExecutor>& executor = isolated ? isolated_ : here_;
    if (!executor)
      executor.emplace(Executor::open(devices_).first(), isolated ? worker_options() : JobOptions{});
    const auto start = Clock::now();
    for (const JobResult& result : executor->run(std::move(jobs)))
      if (result.error) throw Error(result.error->error_class, result.error->message);
    return seconds_since(start);
  }

 private:
  std::string devices_;
  std::optional<JobExecutor> isolated_, here_;
};

/// What a worker process costs a job: `bytes` into it and back, 0: a launch alone.
Case isolated_case(const Settings& settings, const std::shared_ptr<IsolatedPair>& pair, const char* name,
                   std::uint64_t bytes) {
  const std::size_t count = bytes > 0 ? (settings.quick ? 8 : 64) : (settings.quick ? 500 : 10'000);
  auto words = std::make_shared<std::vector<std::byte>>(bytes, std::byte{7});
  const JobProgram program = bytes > 0 ? copy_program() : spin_program();
  const auto jobs = [=] {
    std::vector<Job> list(count);
    for (Job& job : list) {
      job.program = program;
      job.launch.scalars = {job_scalar(static_cast<std::int64_t>(bytes / 16))};
      if (bytes == 0) continue;
      job.inputs = {JobInput::borrowed(std::span<const std::byte>(*words))};
      job.launch.output_bytes = {bytes};
      job.launch.block = {256, 1, 1};
      job.launch.grid = {static_cast<unsigned>((bytes / 16 + 255) / 256), 1, 1};
    }
    return list;
  };
  auto best = std::make_shared<std::pair<double, double>>(1e9, 1e9);
  Case work;
  work.name = name;
  work.work =
      bytes > 0
          ? fmt::format(
                "{} jobs of {} MiB to the first device and back, in a worker process, against "
                "the same in this one",
                count, bytes >> 20)
          : fmt::format(
                "{} source jobs that do nothing, in a worker process of the first device, against the same "
                "in this one",
                count);
  work.devices = settings.devices;
  work.units = static_cast<double>(count);
  work.all = [=] {
    const double seconds = pair->seconds(true, jobs());
    best->first = std::min(best->first, seconds);
    return seconds;
  };
  work.one = [=] {
    const double seconds = pair->seconds(false, jobs());
    best->second = std::min(best->second, seconds);
    return seconds;
  };
  work.note_after = [=] {
    const double us = 1e6 / static_cast<double>(count);
    return fmt::format("{:.2f} us a job, {:.2f} without a worker process", best->first * us,
                       best->second * us);
  };
  return work;
}

// --- makespans, in virtual time ---

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

// --- caches ---

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
  const DeviceSet set = Executor::open(devices);
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

// --- real time ---

Case sleeping_case(bool quick) {
  const std::size_t count = quick ? 400 : 10'000;
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

}  // namespace

HostTwins job_twins() {
  return {{kSpin, spin_here}, {kCopy, copy_here}};
}

std::vector<Case> jobs_cases(const Settings& settings) {
  std::vector<Case> cases{lpt_case(settings.quick),
                          placement_case(settings.quick, ContentHash::modulo, "modulo"),
                          placement_case(settings.quick, ContentHash::rendezvous, "rendezvous")};
  const auto executor = std::make_shared<Executor>(settings.devices);
  // Sim's time is virtual: what the host spends on a job does not show there.
  if (!executor->jobs.devices().sim_world()) {
    cases.push_back(empty_job_case(settings, executor));
    cases.push_back(metg_case(settings, executor));
    const auto pair = std::make_shared<IsolatedPair>(settings.devices);
    cases.push_back(isolated_case(settings, pair, "isolated-job", 0));
    cases.push_back(isolated_case(settings, pair, "isolated-job-4mib", std::uint64_t{4} << 20));
  }
  for (const bool wrong : {false, true})
    for (const CostList& list : kLists) cases.push_back(makespan_case(list, wrong, settings.quick));
  cases.push_back(cache_case(settings.quick));
  cases.push_back(cache_here_case(settings));
  cases.push_back(sleeping_case(settings.quick));
  return cases;
}

}  // namespace shardwise::bench
