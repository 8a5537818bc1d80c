// A worker process: one device, one job at a time, by the same queue and lane that an executor has. The
// executor keeps the clock, counts the attempts and decides what becomes of a job; here each gets one
// attempt.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>

#include "jobs/build_id.hpp"
#include "jobs/job_lane.hpp"
#include "jobs/job_program.hpp"
#include "jobs/source_programs.hpp"
#include "jobs/worker_process.hpp"
#include "shardwise/jobs/isolated.hpp"
#include "shardwise/runtime/buffer.hpp"
#include "shardwise/runtime/copy.hpp"

namespace shardwise {
namespace {

constexpr double kSpinSeconds = 50e-6;

JobQueue::Clock steady_clock() {
  const auto origin = std::chrono::steady_clock::now();
  return
      [origin] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - origin).count(); };
}

/// What of an executor a device needs.
struct Workbench {
  Workbench(const std::string& spec, const std::string& program_cache)
      : devices(open_devices(spec)),
        sources(program_cache),
        queue(devices, options, {devices[0].free_memory() / 10 * 8}, steady_clock(), true),
        lane(devices, 0, queue, options, sources) {}

  static JobOptions one_attempt() {
    JobOptions options;
    options.retries = 0;
    options.memory_retries = 0;
    options.timeout_s = std::numeric_limits<double>::infinity();
    return options;
  }

  JobOptions options = one_attempt();
  DeviceSet devices;
  SourcePrograms sources;
  JobQueue queue;
  JobLane lane;
};

/// In texts of a worker its only GPU is cuda:0, whichever it is.
std::string renamed(std::string text, const std::string& from, const std::string& to) {
  if (from == to) return text;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    const std::size_t end = at + from.size();
    if (end < text.size() && text[end] >= '0' && text[end] <= '9') {
      at = end;
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

class JobServer {
 public:
  JobServer(const HostTwins& twins, std::atomic<bool>& busy)
      : twins_(twins), busy_(busy), channel_(STDIN_FILENO), memory_(worker_memory_file) {}

  int serve() {
    if (!say_hello()) return 2;
    while (const std::optional<WireMessage> message = channel_.receive()) {
      busy_ = true;
      take(*message);
      busy_ = false;
    }
    return 0;
  }

 private:
  bool say_hello() {
    WireWriter hello;
    hello.number(worker_protocol).text(build_id()).number(twins_.size());
    for (const auto& [kernel, twin] : twins_) hello.text(kernel);
    channel_.put(WireType::hello, hello);
    if (!channel_.send()) return true;
    const std::optional<WireMessage> other = channel_.receive();
    if (!other) return true;
    if (other->type != WireType::hello)
      throw Error(ErrorClass::internal, fmt::format("the executor began with '{}'", to_string(other->type)));
    WireReader reader = other->reader();
    return reader.number() == worker_protocol && reader.text() == build_id();
  }

  void take(const WireMessage& message) {
    switch (message.type) {
      case WireType::open:
        return open(message.reader());
      case WireType::program:
        return learn(message.reader());
      case WireType::forget:
        return programs_.clear();
      case WireType::job:
        return work(message.reader());
      default:
        throw Error(ErrorClass::internal, fmt::format("the executor sent '{}', which is a worker's to say",
                                                      to_string(message.type)));
    }
  }

  void open(WireReader reader) {
    const std::string spec = reader.text();
    called_ = reader.text();
    const std::string program_cache = reader.text();
    reader.end();
    std::string why;
    try {
      bench_ = std::make_unique<Workbench>(spec, program_cache);
      ask_for_a_sign(bench_->devices[0]);
      if (bench_->devices[0].kind() == PlatformKind::cuda) channel_.spin(kSpinSeconds);
    } catch (const std::exception& error) {
      why = *error.what() ? error.what() : "unknown error";
    }
    channel_.put(WireType::opened, WireWriter().text(why));
    channel_.send();
  }

  /// Its context is made now, not in the time of the first job, and has to answer: the executor takes it for
  /// the device's sign of life.
  static void ask_for_a_sign(Device& device) {
    const auto stream = device.create_stream("opened");
    Memory sign(*stream, 64, "sign of life");
    std::array<std::byte, 64> bytes;
    bytes.fill(std::byte{1});
    stream->enqueue(
        zero_operation("sign of life", sign.data(), sign.bytes(), {sign.access(AccessMode::write)}));
    stream->enqueue(copy_operation("sign of life", bytes.data(), sign.data(), sign.bytes(),
                                   {sign.access(AccessMode::read)}));
    stream->synchronize();
    for (const std::byte byte : bytes)
      if (byte != std::byte{0}) throw Error(ErrorClass::lost, device.name() + " gives wrong bytes");
  }

  void learn(WireReader reader) {
    const std::uint64_t number = reader.number();
    CudaSource source;
    source.name = reader.text();
    source.text = reader.text();
    source.kernel = reader.text();
    for (std::size_t left = reader.count(); left > 0; --left) source.options.push_back(reader.text());
    reader.end();
    const auto twin = twins_.find(source.kernel);
    if (twin != twins_.end()) source.host_twin = twin->second;
    programs_[number] = JobProgram::source(std::move(source));
  }

  std::span<std::byte> piece(WireReader& reader) {
    const std::uint64_t offset = reader.number(), bytes = reader.number();
    if (bytes > memory_.size() || offset > memory_.size() - bytes)
      throw Error(ErrorClass::internal, fmt::format("{} bytes at {} lie outside the {} that are shared",
                                                    bytes, offset, memory_.size()));
    return {memory_.data() + offset, bytes};
  }

  void work(WireReader reader) {
    if (!bench_) throw Error(ErrorClass::internal, "a job came before a device");
    auto ticket = std::make_shared<JobTicket>();
    Job& job = ticket->job;
    const std::uint64_t sequence = reader.number();
    // From here on the end of this process is the job's doing.
    channel_.put(WireType::begun, WireWriter().number(sequence));
    channel_.send();
    ticket->id = reader.text();
    job.key = reader.text();
    const std::uint64_t program = reader.number();
    const auto known = programs_.find(program);
    if (known == programs_.end())
      throw Error(ErrorClass::internal, fmt::format("a job of program {} came before its text", program));
    job.program = known->second;
    memory_.map(reader.number());
    for (std::size_t left = reader.count(); left > 0; --left)
      job.inputs.push_back(JobInput::borrowed(std::span<const std::byte>(piece(reader))));
    for (std::size_t left = reader.count(); left > 0; --left) {
      ticket->places.push_back(piece(reader));
      job.launch.output_bytes.push_back(ticket->places.back().size());
    }
    for (auto* const size : {&job.launch.grid, &job.launch.block})
      for (unsigned& extent : *size) extent = static_cast<unsigned>(reader.number());
    job.launch.shared_bytes = static_cast<unsigned>(reader.number());
    for (std::size_t left = reader.count(); left > 0; --left) {
      const std::string bytes = reader.text();
      job.launch.scalars.emplace_back(reinterpret_cast<const std::byte*>(bytes.data()),
                                      reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
    }
    reader.end();

    JobQueue& queue = bench_->queue;
    queue.try_add(ticket);
    while (!ticket->ended) {
      bench_->lane.begin();
      if (bench_->lane.is_idle()) break;
      bench_->lane.finish_front();
    }
    std::fflush(stdout);
    answer(sequence, *ticket);
  }

  void answer(std::uint64_t sequence, const JobTicket& ticket) {
    ErrorClass error_class = ErrorClass::internal;
    std::string text;
    const JobResult& result = ticket.result;
    if (!ticket.ended) {
      text = "the worker did not come to an end with it";
    } else if (ticket.last_failure) {
      error_class = ticket.last_failure->error_class;
      text = ticket.last_failure->message;
    } else if (result.status != JobStatus::done) {
      text = result.error ? result.error->message : "no reason";
      if (result.error) error_class = result.error->error_class;
    } else {
      text = misfit(ticket);
      error_class = ErrorClass::usage;
    }
    const bool is_well = ticket.ended && bench_->queue.state(0) == JobDeviceState::ok;
    if (error_class != ErrorClass::data) text = renamed(std::move(text), bench_->devices[0].name(), called_);
    const JobDeviceReport device = bench_->queue.report().devices.front();
    channel_.put(WireType::result, WireWriter()
                                       .number(sequence)
                                       .number(is_well)
                                       .number(!text.empty())
                                       .number(static_cast<std::uint64_t>(error_class))
                                       .text(text)
                                       .number(device.bytes_in));
    channel_.send();
  }

  /// What is wrong with the outputs; empty: nothing, they are where the executor looks for them.
  static std::string misfit(const JobTicket& ticket) {
    std::vector<std::uint64_t> made = ticket.output_sizes, announced;
    if (ticket.places.empty())
      for (const auto& bytes : ticket.result.outputs) made.push_back(bytes.size());
    for (const auto& place : ticket.places) announced.push_back(place.size());
    if (made == announced) return {};
    const auto list = [](const std::vector<std::uint64_t>& sizes) {
      return sizes.empty() ? std::string("none") : fmt::format("{}", fmt::join(sizes, ", "));
    };
    return fmt::format(
        "it made outputs of other sizes than JobLaunch::output_bytes says (bytes: {}; announced: {}); in a "
        "worker process the announced ones have to be right",
        list(made), list(announced));
  }

  const HostTwins& twins_;
  std::atomic<bool>& busy_;
  WireChannel channel_;
  SharedMemory memory_;
  std::string called_;
  std::unordered_map<std::uint64_t, JobProgram> programs_;
  std::unique_ptr<Workbench> bench_;
};

/// Ends the process with its executor, whatever it is doing then: nobody else would end a program that hangs.
/// (The system kills it, too, where the thread that started it is seen to end.)
void end_with_executor(const std::atomic<bool>& busy) {
  pollfd watched{STDIN_FILENO, POLLRDHUP, 0};
  while (poll(&watched, 1, -1) <= 0) {
  }
  // In between jobs it ends by itself, as soon as it has read so.
  if (!busy) std::this_thread::sleep_for(std::chrono::seconds(5));
  _exit(1);
}

void check_files() {
  struct stat in = {}, memory = {};
  int type = 0;
  socklen_t size = sizeof type;
  const bool good = fstat(STDIN_FILENO, &in) == 0 && S_ISSOCK(in.st_mode) &&
                    getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
                    fstat(worker_memory_file, &memory) == 0 && S_ISREG(memory.st_mode);
  if (!good)
    throw_usage(
        "a job worker is started by an executor (JobOptions::isolate, 'shardwise jobs --isolate'), which "
        "talks "
        "to it; there is nothing to do by hand");
}

}  // namespace

int serve_isolated_jobs(const HostTwins& twins) {
  check_files();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  // Programs of its own are none of the executor's.
  fcntl(STDIN_FILENO, F_SETFD, FD_CLOEXEC);
  fcntl(worker_memory_file, F_SETFD, FD_CLOEXEC);
  static std::atomic<bool> busy{true};  // outlives this call: the thread stays
  std::thread([] { end_with_executor(busy); }).detach();
  return JobServer(twins, busy).serve();
}

}  // namespace shardwise
