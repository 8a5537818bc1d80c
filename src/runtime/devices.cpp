#include "shardwise/runtime/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <tuple>

#include "runtime/host/host_device.hpp"
#include "runtime/sim/sim_world.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/runtime/sim_topology.hpp"

#if SHARDWISE_WITH_CUDA
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_peer.hpp"
#endif

namespace shardwise {

namespace {

[[noreturn]] void bad_part(const std::string& part, const std::string& why) {
  throw_usage(fmt::format(
      "devices: '{}' {}; write host:N, host:NxTHREADS, cuda, cuda:0,1, cuda:UUID, cuda:BUSID, sim:N, "
      "sim:PRESET or sim:FILE.toml, joined with '+'",
      part, why));
}

/// Of one set. Planning, the executor and what judges its order take time and memory with the square of the
/// number, and a tracer library has 1,024 keys for its devices in a process.
constexpr int most_devices = 512;
constexpr int most_threads = 4096;

int parse_count(const std::string& part, const std::string& text, const char* what, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most)
    bad_part(part, fmt::format("has '{}' as {}, which is not a whole number from 1 to {}", text, what, most));
  return value;
}

void check_number(const std::string& spec, std::size_t count) {
  if (count > most_devices)
    throw_usage(
        fmt::format("devices: '{}' has {} devices; at most {} in one set", spec, count, most_devices));
}

struct Part {
  std::string text, platform, arguments;
};

std::vector<Part> split_parts(const std::string& spec) {
  std::vector<Part> parts;
  std::size_t begin = 0;
  while (begin <= spec.size()) {
    const std::size_t plus = std::min(spec.find('+', begin), spec.size());
    Part part;
    part.text = spec.substr(begin, plus - begin);
    const std::size_t colon = part.text.find(':');
    part.platform = part.text.substr(0, colon);
    if (colon != std::string::npos) {
      part.arguments = part.text.substr(colon + 1);
      if (part.arguments.empty()) bad_part(part.text, "names no device after the ':'");
    }
    parts.push_back(part);
    begin = plus + 1;
  }
  return parts;
}

DeviceInfo host_info(PlatformKind kind, int index, int threads) {
  DeviceInfo info;
  info.kind = kind;
  info.index = index;
  info.name = fmt::format("{}:{}", to_string(kind), index);
  info.model = kind == PlatformKind::sim ? "simulated device" : host_model_name();
  info.uuid = fmt::format("{}-{}", to_string(kind), index);
#if defined(__x86_64__)
  info.architecture = "x86-64-v3";
#elif defined(__aarch64__)
  info.architecture = "aarch64";
#endif
  info.memory_bytes = available_memory();
  info.threads = threads;
  return info;
}

void check_alike(const std::vector<std::shared_ptr<Device>>& devices, bool allow_mixed) {
  const DeviceInfo& first = devices.front()->info();
  for (const auto& device : devices) {
    const DeviceInfo& info = device->info();
    const bool alike = info.kind == first.kind && info.model == first.model && info.threads == first.threads;
    if (!alike && !allow_mixed)
      throw_usage(fmt::format(
          "devices: {} ({}, {} threads) is unlike {} ({}, {} threads); add --allow-mixed to use both",
          info.name, info.model, info.threads, first.name, first.model, first.threads));
  }
}

/// SHARDWISE_SIM_SEED: the same program again under another schedule. (ctest runs the tests of the dispatcher
/// that way.)
std::uint64_t seed_offset() {
  const char* text = std::getenv("SHARDWISE_SIM_SEED");
  if (!text || !*text) return 0;
  return static_cast<std::uint64_t>(
      parse_whole(text, "SHARDWISE_SIM_SEED", 0, std::numeric_limits<std::int64_t>::max()));
}

/// SHARDWISE_SIM_GUARD: 1 or 0 in place of what the build says.
bool is_guarded_by_default() {
  if (const char* text = std::getenv("SHARDWISE_SIM_GUARD"); text && *text)
    return parse_whole(text, "SHARDWISE_SIM_GUARD", 0, 1) == 1;
#ifdef NDEBUG
  return false;
#else
  return true;
#endif
}

/// What `sim:ARGUMENTS` means: N devices that are all alike, a file, or a preset.
SimTopology sim_topology_of(const Part& part, const OpenOptions& options) {
  const std::string& text = part.arguments;
  if (text.ends_with(".toml") || text.find('/') != std::string::npos) return read_sim_topology(text);
  // What begins as a preset does and is none is most likely a number gone wrong.
  const bool preset = text.find('x') != std::string::npos || text.find('h') != std::string::npos;
  if (preset) return sim_preset(text);
  const int count = text.empty() ? 1 : parse_count(part.text, text, "the number of devices", most_devices);
  if (!options.sim_topology) return flat_topology(count, options.sim_costs);
  if (static_cast<int>(options.sim_topology->devices.size()) != count)
    bad_part(part.text,
             fmt::format("has {} devices, sim_topology has {}", count, options.sim_topology->devices.size()));
  validate(*options.sim_topology, "devices: sim_topology");
  return *options.sim_topology;
}

/// Checks what options say of sim devices against their number; 0 for a set of real ones, negative: not known
/// yet.
void check_sim_options(const std::string& spec, const OpenOptions& options, int count) {
  const std::vector<double>& speeds = options.sim_speeds;
  if (count >= 0 && !speeds.empty() && static_cast<int>(speeds.size()) != count)
    throw_usage(
        fmt::format("devices: sim_speeds has {} factors for the {} sim devices of '{}'; give one for each",
                    speeds.size(), count, spec));
  for (std::size_t i = 0; i < speeds.size(); ++i)
    if (!std::isfinite(speeds[i]) || speeds[i] <= 0)
      throw_usage(fmt::format("devices: sim_speeds[{}] is {}; give a finite factor above 0", i, speeds[i]));
  const SimCosts& costs = options.sim_costs;
  const std::tuple<const char*, double, bool> values[] = {
      {"launch_latency_s", costs.launch_latency_s, true},
      {"ns_per_item", costs.ns_per_item, true},
      {"copy_latency_s", costs.copy_latency_s, true},
      {"copy_bytes_per_s", costs.copy_bytes_per_s, false}};
  for (const auto& [name, value, may_be_zero] : values)
    if (!std::isfinite(value) || value < 0 || (value == 0 && !may_be_zero))
      throw_usage(fmt::format("devices: sim_costs.{} is {}; give a finite number {} 0", name, value,
                              may_be_zero ? "of at least" : "above"));
}

}  // namespace

DeviceSet DeviceSet::first() const {
  DeviceSet set = *this;
  set.spec_ = devices_.front()->name();
  set.devices_.resize(1);
  set.peers_ = {true};
  return set;
}

DeviceSet DeviceSet::subset(const std::vector<int>& indices) const {
  if (indices.empty()) throw_usage(fmt::format("devices: none of '{}' were chosen; give an index", spec_));
  DeviceSet set = *this;
  set.devices_.clear();
  set.peers_.clear();
  set.spec_.clear();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const int index = indices[i];
    if (index < 0 || index >= size())
      throw_usage(
          fmt::format("devices: there is no device {} in '{}'; give 0 to {}", index, spec_, size() - 1));
    if (std::find(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(i), index) !=
        indices.begin() + static_cast<std::ptrdiff_t>(i))
      throw_usage(fmt::format("devices: device {} of '{}' was chosen twice; name each once", index, spec_));
    set.devices_.push_back(devices_[static_cast<std::size_t>(index)]);
    set.spec_ += (i == 0 ? "" : "+") + set.devices_.back()->name();
  }
  for (const int from : indices)
    for (const int to : indices) set.peers_.push_back(can_peer(from, to));
  return set;
}

bool DeviceSet::can_peer(int from, int to) const {
  for (const int device : {from, to})
    if (device < 0 || device >= size())
      throw_usage(
          fmt::format("DeviceSet::can_peer: no device {} in '{}'; give 0 to {}", device, spec_, size() - 1));
  return peers_[static_cast<std::size_t>(from * size() + to)];
}

namespace {

/// Whether `to` reads and writes the memory of `from` as its own.
bool shares_memory(const Device& from, const Device& to, const SimScheduler* sim) {
  if (sim) return sim->peer(from.info().index, to.info().index);
#if SHARDWISE_WITH_CUDA
  const auto* source = dynamic_cast<const CudaDevice*>(&from);
  const auto* target = dynamic_cast<const CudaDevice*>(&to);
  if (source && target) return !cuda_pair_is_staged(source->index(), target->index());
#endif
  return from.kind() == to.kind();
}

/// What a probe of GPUs does where a pair has no peer access, for sim: refuses it with `require_peer`, else
/// warns of pairs that lost it by a fault. A topology means what it says.
void check_sim_peers(const SimScheduler& sim, int count, bool require_peer,
                     std::vector<std::string>& warnings) {
  std::string found;
  int pairs = 0;
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to) {
      if (from == to || !(require_peer || sim.denies_peer(from, to)) || sim.peer(from, to)) continue;
      if (++pairs <= 4) found += fmt::format("{}sim:{} to sim:{}", pairs > 1 ? ", " : "", from, to);
    }
  if (pairs == 0) return;
  if (pairs > 4) found += fmt::format(" and {} more pairs", pairs - 4);
  const std::string text = "no working peer access " + found;
  if (require_peer) throw_usage("devices: " + text + "; drop --require-peer to copy through host memory");
  warnings.push_back(text + ": copies go through host memory");
}

}  // namespace

DeviceSet open_devices(const std::string& spec, const OpenOptions& options) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
    throw_usage(
        "this processor lacks AVX2, FMA or BMI2: shardwise's host code is built for x86-64-v3 (2013 and "
        "later)");
#endif
  std::string wanted = spec;
  if (wanted.empty()) {
    wanted = "host:1";
#if SHARDWISE_WITH_CUDA
    if (cuda_device_count() > 0) wanted = "cuda";
#endif
  }
  DeviceSet set;
  set.spec_ = wanted;
  set.timeline_ = std::make_shared<Timeline>();

  const std::vector<Part> parts = split_parts(wanted);
  const bool any_sim =
      std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.platform == "sim"; });
  const bool any_real = std::any_of(parts.begin(), parts.end(), [](const Part& part) {
    return part.platform == "host" || part.platform == "cuda";
  });
  if (any_sim && any_real)
    throw_usage("devices: '" + wanted + "' mixes sim with real devices, which share no time; use one kind");
  if (!any_sim) check_sim_options(wanted, options, 0);
  if (!any_sim && !parse_faults(options.sim_faults).empty())
    throw_usage(fmt::format("devices: faults were given for '{}'; only sim devices have some", wanted));
  // Beside a GPU, host devices use pinned memory: GPUs copy it directly, not in pieces through ours.
  HostAllocator allocator{allocate_host_bytes, release_host_bytes};
#if SHARDWISE_WITH_CUDA
  const auto asks_for = [&](const char* platform) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Part& part) { return part.platform == platform; });
  };
  if (asks_for("host") && asks_for("cuda")) allocator = {cuda_allocate_pinned, cuda_release_pinned};
#endif
  int host_index = 0;
  for (const Part& part : parts) {
    if (part.platform == "host") {
      int count = 1, threads = 0;
      if (!part.arguments.empty()) {
        const std::size_t x = part.arguments.find('x');
        count = parse_count(part.text, part.arguments.substr(0, x), "the number of devices", most_devices);
        if (x != std::string::npos)
          threads = parse_count(part.text, part.arguments.substr(x + 1), "the threads of each", most_threads);
      }
      // The cores are shared equally, one at least.
      if (threads == 0) threads = std::max(1, available_cores() / count);
      for (int i = 0; i < count; ++i) {
        const DeviceInfo info = host_info(PlatformKind::host, host_index++, threads);
        set.devices_.push_back(std::make_shared<HostDevice>(info, info.memory_bytes, allocator));
      }
    } else if (part.platform == "sim") {
      if (set.sim_world_)
        bad_part(part.text, "is a second sim part; give one with the total number of devices");
      check_sim_options(wanted, options, -1);
      SimTopology topology = sim_topology_of(part, options);
      const int count = static_cast<int>(topology.devices.size());
      check_number(wanted, topology.devices.size());
      check_sim_options(wanted, options, count);
      for (std::size_t i = 0; i < options.sim_speeds.size(); ++i)
        topology.devices[i].speed *= options.sim_speeds[i];
      const auto world = std::make_shared<SimScheduler>(options.sim_seed + seed_offset(), available_cores(),
                                                        std::move(topology),
                                                        options.sim_guard.value_or(is_guarded_by_default()));
      world->set_first_faults(parse_faults(options.sim_faults));
      set.sim_world_ = world;
      for (int i = 0; i < count; ++i) {
        DeviceInfo info = host_info(PlatformKind::sim, i, available_cores());
        const SimDeviceModel& model = world->topology().devices[static_cast<std::size_t>(i)];
        info.model = model.model;
        if (model.memory_bytes > 0) info.memory_bytes = model.memory_bytes;
        set.devices_.push_back(std::make_shared<SimDevice>(info, world));
      }
    } else if (part.platform == "cuda") {
#if SHARDWISE_WITH_CUDA
      for (int index : cuda_select(part.text, part.arguments))
        set.devices_.push_back(open_cuda_device(index));
#else
      bad_part(part.text, "needs CUDA, which this build leaves out (configure with --preset cuda)");
#endif
    } else {
      bad_part(part.text.empty() ? wanted : part.text,
               fmt::format("names the platform '{}', which does not exist", part.platform));
    }
    check_number(wanted, set.devices_.size());
  }

  std::set<std::string> names;
  for (const auto& device : set.devices_)
    if (!names.insert(device->name()).second)
      throw_usage(
          fmt::format("devices: {} is named twice in '{}'; name each device once", device->name(), wanted));
  // A topology that was written with unlike devices means them.
  if (!any_sim) check_alike(set.devices_, options.allow_mixed);
#if SHARDWISE_WITH_CUDA
  probe_cuda_peers(set.devices_, options.require_peer, set.warnings_);
#endif
  const auto* sim = dynamic_cast<const SimScheduler*>(set.sim_world_.get());
  if (sim) check_sim_peers(*sim, set.size(), options.require_peer, set.warnings_);
  for (const auto& from : set.devices_)
    for (const auto& to : set.devices_) set.peers_.push_back(shares_memory(*from, *to, sim));
  std::vector<std::string> device_names;
  for (const auto& device : set.devices_) {
    device->set_timeline(set.timeline_.get());
    device_names.push_back(device->name());
  }
  set.timeline_->set_devices(std::move(device_names));
  return set;
}

}  // namespace shardwise
