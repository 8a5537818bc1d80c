#include "ranks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "progress.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "signals.hpp"
#include "table.hpp"
#if SHARDWISE_WITH_MPI
#include "shardwise/cluster/mpi.hpp"
#endif

namespace shardwise::program {
namespace {

std::shared_ptr<Communicator>& current() {
  static std::shared_ptr<Communicator> ranks = single_process();
  return ranks;
}

std::optional<int> whole_number(const char* text) {
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 0 || value > 1'000'000) return std::nullopt;
  return static_cast<int>(value);
}

}  // namespace

std::optional<Launch> detect_launch(const std::function<const char*(const char*)>& variable) {
  struct Names {
    const char *launcher, *size, *rank;
  };
  // Open MPI; MPICH and Intel MPI (Hydra), also srun --mpi=pmi2; srun by itself. SLURM_PROCID alone is set in
  // a batch script as well, which runs once: only a step with several tasks counts.
  for (const Names& names :
       {Names{"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
        Names{"mpiexec", "PMI_SIZE", "PMI_RANK"}, Names{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const std::optional<int> size = whole_number(variable(names.size)),
                             rank = whole_number(variable(names.rank));
    if (size && rank && *size > 0 && *rank < *size) return Launch{names.launcher, *rank, *size};
  }
  return std::nullopt;
}

// What a launcher tells a rank, and no setting of a user's, which a launcher of the command's own may need.
bool is_of_launcher(std::string_view variable) {
  constexpr std::string_view beginnings[] = {
      // Open MPI and PRRTE
      "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_COMMAND", "OMPI_ARGV", "OMPI_NUM_APP_CTX",
      "OMPI_FIRST_RANKS", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FILE_LOCATION", "OMPI_MCA_ess", "OMPI_MCA_orte_",
      "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir", "OMPI_MCA_mpi_oversubscribe",
      "OMPI_MCA_shmem_RUNTIME_QUERY_hint", "PMIX_", "PRTE_LAUNCHED",
      // MPICH and Intel MPI
      "PMI_", "PMI2_", "HYDI_CONTROL_FD", "HYDRA_", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
      // Slurm; the rest is of the allocation
      "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_GTIDS"};
  return std::ranges::any_of(beginnings, [&](std::string_view begin) { return variable.starts_with(begin); });
}

double rank_deadline_s() {
  const char* text = std::getenv("SHARDWISE_RANK_DEADLINE");
  if (text == nullptr || *text == '\0') return 60;
  const double seconds = parse_number(text, "SHARDWISE_RANK_DEADLINE");
  if (!(seconds > 0) || seconds > 1e6)
    throw_usage(fmt::format("SHARDWISE_RANK_DEADLINE is '{}'; give seconds above 0, at most 1000000", text));
  return seconds;
}

void join_ranks() {
  const std::optional<Launch> launch = detect_launch([](const char* name) { return std::getenv(name); });
  if (!launch || launch->size == 1) return;
#if SHARDWISE_WITH_MPI
  MpiOptions options;
  options.deadline_s = rank_deadline_s();
  options.on_failure = stop_for_other_rank;
  options.on_abort = remove_temporaries;
  std::shared_ptr<Communicator> world = mpi_world(options);
  if (world->size() != launch->size) {
    const int size = world->size();
    const std::string name = world->name();
    world.reset();
    throw_usage(
        fmt::format("{} started {} processes, but the MPI of this build ({}) sees {}: it is another one's "
                    "launcher; start the "
                    "program with the mpirun of {}",
                    launch->launcher, launch->size, name, size, name));
  }
  current() = std::move(world);
#else
  throw_usage(
      fmt::format("{} started this as process {} of {}, but this build has no MPI, so that each would do and "
                  "write the same; "
                  "install libopenmpi-dev and openmpi-bin, configure with -DSHARDWISE_MPI=ON and build "
                  "again, or start one "
                  "process",
                  launch->launcher, launch->rank, launch->size));
#endif
}

Communicator& ranks() {
  return *current();
}

void leave_ranks() {
  current() = single_process();
}

Json gather_rank_reports(const Json& mine) {
  Communicator& all = ranks();
  Json entry = {{"rank", all.rank()}, {"host", all.host(all.rank())}};
  entry.update(mine);
  double waited = 0;
  std::uint64_t out = 0, in = 0;
  Json steps = Json::array();
  for (const RankTraffic& step : all.traffic()) {
    waited += step.waited_s;
    out += step.bytes_out;
    in += step.bytes_in;
    if (step.bytes_out + step.bytes_in > 0)
      steps.push_back({{"what", step.what},
                       {"calls", step.calls},
                       {"bytes_out", step.bytes_out},
                       {"bytes_in", step.bytes_in}});
  }
  entry["waited_s"] = waited;
  entry["bytes_out"] = out;
  entry["bytes_in"] = in;
  entry["traffic"] = steps;
  Json reports;
  for (const std::string& text : all.gather_text(entry.dump(), 0, "reports of the ranks"))
    reports.push_back(Json::parse(text));
  return reports;
}

std::string rank_table(const Json& reports, const std::string& unit) {
  std::vector<std::vector<std::string>> rows{
      {"rank", "host", "device", unit, "busy", "waited", "sent", "received"}};
  const auto number = [](const Json& entry, const char* key) {
    return entry.contains(key) && entry[key].is_number() ? entry[key].get<double>() : 0.0;
  };
  for (const Json& entry : reports) {
    std::string devices;
    double busy = 0;
    if (entry.contains("devices"))
      for (const Json& device : entry["devices"]) {
        devices += (devices.empty() ? "" : "+") + device.value("name", "");
        busy += number(device, "busy_s");
      }
    rows.push_back({std::to_string(entry.value("rank", 0)), entry.value("host", ""), devices,
                    count_text(static_cast<std::int64_t>(number(entry, unit.c_str()))), short_time(busy),
                    short_time(number(entry, "waited_s")),
                    human_bytes(static_cast<std::uint64_t>(number(entry, "bytes_out"))),
                    human_bytes(static_cast<std::uint64_t>(number(entry, "bytes_in")))});
  }
  return table_text(rows);
}

}  // namespace shardwise::program
