#include "grid/ranks_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "grid/operation_queue.hpp"
#include "runtime/pinned_memory.hpp"
#include "shardwise/grid/grid_error.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {

const char* to_string(RankRoute route) noexcept {
  switch (route) {
    case RankRoute::automatic:
      return "automatic";
    case RankRoute::nccl:
      return "nccl";
    case RankRoute::device_pointers:
      return "device_pointers";
    case RankRoute::staged:
      return "staged";
  }
  return "unknown";
}

PartitionRequest Mpi::request() const {
  if (!ranks)
    throw GridError(GridErrorCode::unavailable,
                    "grid: the backend Mpi has no communicator; give it mpi_world(), which a build with "
                    "SHARDWISE_MPI has, or single_process()");
  return {ranks->size(), process_grid, blocks};
}

std::unique_ptr<BlockTransport> Mpi::connect(const Partition& partition) const {
  return std::make_unique<RanksTransport>(partition, *this);
}

namespace {

constexpr int first_tag = 16'384;
constexpr std::size_t probe_bytes = 1 << 14;

int tag_of(const Message& m) {
  return first_tag + 2 * m.dimension + m.side;
}

/// Routes that were found to work, and the link: to connect NCCL takes a second. All communicators of a
/// process have the same ranks, but for a single process. Never destroyed: GPUs may be gone before static
/// objects are.
struct Found {
  int ranks = 0;
  std::string device;
  std::shared_ptr<DeviceCollectives> nccl;
  std::map<RankRoute, std::string> obstacles;
};
Found& found_for(const Communicator& ranks, const std::string& device) {
  static auto* const all = new std::vector<std::unique_ptr<Found>>;
  for (const auto& found : *all)
    if (found->device == device && found->ranks == ranks.size()) return *found;
  all->push_back(std::make_unique<Found>(Found{ranks.size(), device, nullptr, {}}));
  return *all->back();
}

}  // namespace

RanksTransport::RanksTransport(const Partition& partition, const Mpi& backend)
    : ranks_(backend.ranks), devices_(backend.devices) {
  if (devices_.size() > 1)
    throw GridError(GridErrorCode::too_many_devices,
                    fmt::format("grid: a rank of Mpi has one device in this version, but rank {} has {} "
                                "({}); start a rank for each",
                                ranks_->rank(), devices_.size(), devices_.spec()),
                    {static_cast<double>(devices_.size()), 1});
  if (partition.parts() != ranks_->size())
    throw GridError(GridErrorCode::bad_part_count,
                    fmt::format("grid: {} parts for {} ranks; Mpi has one part a rank", partition.parts(),
                                ranks_->size()),
                    {static_cast<double>(partition.parts()), static_cast<double>(ranks_->size())});
  const std::string part = fmt::format("part {}", ranks_->rank());
  if (devices_.size() == 0) {
    compute_ = inline_device_.create_stream(part);
  } else {
    compute_ = devices_[0].create_stream(part + " compute");
    transfer_ = devices_[0].create_stream(part + " transfer");
  }
  choose_routes(backend.route);
}

std::string RanksTransport::name() const {
  std::string routes = to_string(route_[0]);
  for (std::size_t d = 1; d < 3; ++d)
    if (route_[d] != route_[d - 1]) routes.append("/").append(to_string(route_[d]));
  if (nccl_) routes.append(" by ").append(nccl_->name());
  return fmt::format("{} ranks ({}), {}, {}", ranks_->size(), ranks_->name(),
                     devices_.size() == 0 ? "the calling thread" : devices_.spec(), routes);
}

std::shared_ptr<void> RanksTransport::host_memory(std::uint64_t bytes) {
  if (devices_.size() > 0) return allocate_pinned(devices_, bytes, "grid messages");
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (!memory) throw Error(ErrorClass::memory, fmt::format("grid: no host memory of {} bytes", bytes));
  return {memory, std::free};
}

std::vector<std::int64_t> RanksTransport::gather_words(const std::vector<std::int64_t>& words) {
  if (ranks_->size() == 1) return words;
  std::vector<std::int64_t> all;
  for (const auto& bytes : ranks_->gather_all(std::as_bytes(std::span(words)), "grid sums")) {
    const std::size_t at = all.size();
    all.resize(at + bytes.size() / sizeof(std::int64_t));
    std::memcpy(all.data() + at, bytes.data(), bytes.size());
  }
  return all;
}

std::vector<std::vector<std::byte>> RanksTransport::gather_bytes(std::span<const std::byte> bytes, int root) {
  return root < 0 ? ranks_->gather_all(bytes, "grid fields") : ranks_->gather(bytes, root, "grid fields");
}

RankRoute RanksTransport::route_of(const Message& message) const {
  return route_[static_cast<std::size_t>(std::min(message.dimension, 2))];
}

bool RanksTransport::move_waits() const {
  return std::any_of(route_.begin(), route_.end(), [](RankRoute route) { return route != RankRoute::nccl; });
}

std::string RanksTransport::local_obstacle(RankRoute route) {
  const bool on_gpu = devices_.size() > 0 && devices_[0].kind() == PlatformKind::cuda;
  if (route == RankRoute::nccl && !on_gpu) return "nccl is for GPUs";
  if (route == RankRoute::device_pointers && on_gpu && !ranks_->takes_device_memory())
    return ranks_->name() + " does not take GPU memory";
  return "";
}

std::string RanksTransport::probe(RankRoute route) {
  const bool needs_proof = devices_.size() > 0 && devices_[0].kind() == PlatformKind::cuda;
  // First what every rank can say by itself, then what takes all of them: who fails there fails for all,
  // because the others wait for it.
  const auto of_all = [&](const std::string& mine) -> std::string {
    for (const std::vector<std::byte>& text :
         ranks_->gather_all(std::as_bytes(std::span(mine)), "grid routes"))
      if (!text.empty()) return {reinterpret_cast<const char*>(text.data()), text.size()};
    return "";
  };
  std::string obstacle = local_obstacle(route);
  Memory from, to;
  if (needs_proof && obstacle.empty()) try {
      const std::uint64_t bytes = probe_bytes * static_cast<std::uint64_t>(ranks_->size());
      from = Memory(*compute_, bytes, "route probe");
      to = Memory(*compute_, bytes, "route probe");
      compute_->synchronize();
    } catch (const Error& error) {
      obstacle = error.what();
    }
  obstacle = of_all(obstacle);
  if (!obstacle.empty() || !needs_proof) return obstacle;
  if (route == RankRoute::nccl && !nccl_) {
    try {
      nccl_ = connect_devices(*ranks_, *transfer_, &obstacle);
    } catch (const RankError&) {
      throw;
    } catch (const Error& error) {
      obstacle = error.what();  // on all ranks
    }
    if (!nccl_) return obstacle;
  }
  try {
    obstacle = try_pattern(route, from, to);
  } catch (const Error& error) {
    ranks_->fail(error);
  }
  return of_all(obstacle);
}

std::string RanksTransport::try_pattern(RankRoute route, Memory& from, Memory& to) {
  const std::array<RankRoute, 3> before = std::exchange(route_, {route, route, route});
  const auto size = static_cast<std::size_t>(ranks_->size());
  std::vector<std::byte> pattern(probe_bytes * size), got(pattern.size());
  const auto word = [&](int source, int target, std::size_t i) {
    return static_cast<std::byte>((i * 2654435761u + static_cast<std::size_t>(source * 64 + target)) >> 7);
  };
  const int me = ranks_->rank();
  for (std::size_t peer = 0; peer < size; ++peer)
    for (std::size_t i = 0; i < probe_bytes; ++i)
      pattern[peer * probe_bytes + i] = word(me, static_cast<int>(peer), i);
  OperationQueue queue;
  queue.note_allocation(*compute_, from.resource(), from.bytes());
  queue.note_allocation(*compute_, to.resource(), to.bytes());
  queue.enqueue(*compute_, copy_operation("pattern", from.data(), pattern.data(), pattern.size(),
                                          {from.access(AccessMode::write)}));
  queue.enqueue(*compute_, zero_operation("clear", to.data(), to.bytes(), {to.access(AccessMode::write)}));
  std::vector<Message> messages;
  for (int source = 0; source < ranks_->size(); ++source)
    for (int target = 0; target < ranks_->size(); ++target) {
      if (source == target || (source != me && target != me)) continue;
      Message m{source, target, Message::window, 0};
      m.from = source == me ? &from : nullptr;
      m.to = target == me ? &to : nullptr;
      m.from_begin = static_cast<std::size_t>(target) * probe_bytes;
      m.to_begin = static_cast<std::size_t>(source) * probe_bytes;
      m.bytes = probe_bytes;
      messages.push_back(m);
    }
  move(messages, queue);
  queue.enqueue(*compute_, copy_operation("pattern back", got.data(), to.data(), got.size(),
                                          {to.access(AccessMode::read)}));
  compute_->synchronize();
  check_link();
  route_ = before;
  for (int peer = 0; peer < ranks_->size(); ++peer)
    for (std::size_t i = 0; i < probe_bytes && peer != me; ++i)
      if (got[static_cast<std::size_t>(peer) * probe_bytes + i] != word(peer, me, i))
        return fmt::format("{} does not bring what rank {} sends to rank {}", to_string(route), peer, me);
  return "";
}

void RanksTransport::choose_routes(const std::array<RankRoute, 3>& wanted) {
  route_ = {RankRoute::device_pointers, RankRoute::device_pointers, RankRoute::device_pointers};
  const bool on_gpu = devices_.size() > 0 && devices_[0].kind() == PlatformKind::cuda;
  Found& found = found_for(*ranks_, devices_.size() == 0 ? "" : devices_[0].name());
  const auto knows = [&](RankRoute route) -> std::int64_t {
    // A link that was given up on one rank is none on the others either.
    if (route == RankRoute::nccl && found.nccl && found.nccl->is_given_up()) return 0;
    return found.obstacles.contains(route) ? 1 : 0;
  };
  // All ranks ask for the same, and have the same kind of device, or none of them begins.
  std::array<std::int64_t, 6> low{on_gpu,
                                  static_cast<int>(wanted[0]),
                                  static_cast<int>(wanted[1]),
                                  static_cast<int>(wanted[2]),
                                  knows(RankRoute::nccl),
                                  knows(RankRoute::device_pointers)},
      high = low;
  ranks_->min(low, "grid routes");
  ranks_->max(high, "grid routes");
  if (low[1] != high[1] || low[2] != high[2] || low[3] != high[3])
    throw GridError(GridErrorCode::bad_argument,
                    "grid: the ranks ask for different routes; give all the same");
  // What one rank has to find out, all find out together: another device may be new to one rank only.
  if (low[4] == 0) {
    found.obstacles.erase(RankRoute::nccl);
    found.nccl = nullptr;
  }
  if (low[5] == 0) found.obstacles.erase(RankRoute::device_pointers);
  nccl_ = found.nccl;
  const auto obstacle_of = [&](RankRoute route) {
    const auto known = found.obstacles.find(route);
    if (known != found.obstacles.end()) return known->second;
    return found.obstacles[route] = probe(route);
  };
  const bool mixed = low[0] != high[0];
  RankRoute best = RankRoute::automatic;
  std::array<RankRoute, 3> chosen{};
  for (std::size_t d = 0; d < 3; ++d) {
    chosen[d] = wanted[d];
    if (wanted[d] == RankRoute::staged) continue;
    if (wanted[d] != RankRoute::automatic) {
      const std::string obstacle = obstacle_of(wanted[d]);
      if (!obstacle.empty())
        throw GridError(GridErrorCode::unavailable,
                        fmt::format("grid: the route {} does not work: {}; use automatic or staged",
                                    to_string(wanted[d]), obstacle));
      continue;
    }
    if (best == RankRoute::automatic) {
      best = mixed || on_gpu ? RankRoute::staged : RankRoute::device_pointers;
      if (!mixed && on_gpu && ranks_->size() > 1)
        for (const RankRoute route : {RankRoute::device_pointers, RankRoute::nccl})
          if (obstacle_of(route).empty()) best = route;
    }
    chosen[d] = best;
  }
  route_ = chosen;
  found.nccl = nccl_;
  if (std::find(route_.begin(), route_.end(), RankRoute::nccl) == route_.end()) nccl_ = nullptr;
}

std::byte* RanksTransport::stage(const Message& m, std::size_t index) {
  // Faces are told apart by dimension and side, messages between levels by their place in the list.
  const bool face = m.dimension != Message::window;
  Stage& stage = stages_[{m.dimension, m.side, m.source, m.target, face ? 0 : static_cast<int>(index)}];
  if (stage.bytes < m.bytes) {
    std::shared_ptr<void> larger = host_memory(m.bytes);
    outgrown_.push_back(std::exchange(stage.memory, std::move(larger)));
    stage.bytes = m.bytes;
  }
  return static_cast<std::byte*>(stage.memory.get());
}

void RanksTransport::wait_for_transfer() {
  try {
    transfer(0).synchronize();
  } catch (const DependencyError&) {
    compute_->synchronize();
    throw;
  }
  check_link();  // other dimensions may go by it
}

void RanksTransport::move(const std::vector<Message>& messages, OrderedQueue& queue) {
  std::vector<const Message*> by_nccl, by_ranks;
  for (const Message& m : messages) (route_of(m) == RankRoute::nccl ? by_nccl : by_ranks).push_back(&m);
  if (!by_nccl.empty()) move_by_nccl(by_nccl, queue);
  if (!by_ranks.empty()) move_by_ranks(by_ranks, queue);
}

void RanksTransport::move_by_nccl(const std::vector<const Message*>& messages, OrderedQueue& queue) {
  // One group a dimension (four messages at most), then the messages between levels, by source and target:
  // the streams of all ranks come to them in one order. Between two ranks NCCL matches by order alone: by
  // the receiver's side on either end.
  const auto enqueue = [&](const std::vector<const Message*>& group) {
    if (group.empty()) return;
    Operation operation;
    operation.name = "halo by NCCL";
    std::vector<DeviceCollectives::Message> parts;
    for (const Message* m : group) {
      const bool sends = m->from != nullptr;
      const Memory& memory = sends ? *m->from : *m->to;
      const std::uint64_t at = sends ? m->from_begin : m->to_begin;
      operation.accesses.add(memory.access(sends ? AccessMode::read : AccessMode::write, at, m->bytes));
      parts.push_back(
          {static_cast<std::byte*>(memory.data()) + at, m->bytes, sends ? m->target : m->source, sends});
    }
    operation.body = [link = nccl_, parts = std::move(parts)](LaunchContext& context) {
      link->exchange(context, parts);
    };
    queue.enqueue(transfer(0), std::move(operation));
  };
  std::vector<const Message*> group;
  for (int d = 0; d < Message::window; ++d) {
    group.clear();
    for (const Message* m : messages)
      if (m->dimension == d) group.push_back(m);
    std::stable_sort(group.begin(), group.end(),
                     [](const Message* a, const Message* b) { return a->side < b->side; });
    enqueue(group);
  }
  for (const Message* m : messages)
    if (m->dimension == Message::window) enqueue({m});
}

void RanksTransport::move_by_ranks(const std::vector<const Message*>& messages, OrderedQueue& queue) {
  Stream& stream = transfer(0);
  // What is sent is made, and nobody uses any more what will be overwritten, once the stream is through here.
  AccessList uses;
  const auto flush = [&] {
    if (uses.size() == 0) return;
    Operation operation;
    operation.name = "halo between ranks";
    operation.accesses = std::exchange(uses, AccessList());
    operation.body = [](LaunchContext&) {};
    queue.enqueue(stream, std::move(operation));
  };
  const auto memory_of = [](const Message& m) {
    const bool sends = m.from != nullptr;
    return static_cast<std::byte*>((sends ? m.from : m.to)->data()) + (sends ? m.from_begin : m.to_begin);
  };
  const auto access_of = [](const Message& m) {
    return m.from ? m.from->access(AccessMode::read, m.from_begin, m.bytes)
                  : m.to->access(AccessMode::write, m.to_begin, m.bytes);
  };
  std::vector<std::byte*> data;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& m = *messages[i];
    const bool staged = route_of(m) == RankRoute::staged;
    data.push_back(staged ? stage(m, i) : memory_of(m));
    if (staged && m.from) {
      queue.enqueue(stream,
                    copy_operation("halo to the host", data[i], memory_of(m), m.bytes, {access_of(m)}));
    } else if (!staged) {
      if (uses.size() == AccessList::capacity) flush();
      uses.add(access_of(m));
    }
  }
  flush();
  wait_for_transfer();
  outgrown_.clear();
  std::vector<std::unique_ptr<RankMessage>> under_way;
  for (const bool sending : {false, true})
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Message& m = *messages[i];
      if ((m.from != nullptr) != sending) continue;
      const std::span<std::byte> bytes(data[i], m.bytes);
      under_way.push_back(sending ? ranks_->send(bytes, m.target, tag_of(m), "grid halo")
                                  : ranks_->receive(bytes, m.source, tag_of(m), "grid halo"));
    }
  for (const auto& message : under_way) message->wait();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& m = *messages[i];
    if (route_of(m) == RankRoute::staged && m.to)
      queue.enqueue(stream,
                    copy_operation("halo from the host", memory_of(m), data[i], m.bytes, {access_of(m)}));
  }
}

}  // namespace shardwise
