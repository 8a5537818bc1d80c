// The worker program of the tests of isolation: twins that do what programs must not, and, by its first
// argument, workers that are none.
//
//   isolation_worker                serves
//   isolation_worker MODE [FILE]    see main()

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "jobs/build_id.hpp"
#include "jobs/isolation_fixture.hpp"
#include "jobs/worker_process.hpp"
#include "shardwise/jobs/isolated.hpp"

namespace shardwise::test {
namespace {

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

/// What a job carries out: its first scalar, and a mark that is left the first time where there is a second
/// input.
void misbehave(JobContext& job) {
  Misdeed misdeed{};
  std::memcpy(&misdeed, job.job().launch.scalars.at(0).data(), sizeof misdeed);
  if (job.job().inputs.size() > 1) {
    const auto bytes = job.job().inputs[1].bytes();  // the device's copy comes later
    const std::string mark(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (std::filesystem::exists(mark)) misdeed = Misdeed::none;
    std::ofstream(mark) << getpid();
  }
  const auto count = job.input_bytes(0) / sizeof(std::uint64_t);
  if (misdeed == Misdeed::abort) std::abort();
  if (misdeed == Misdeed::exit) _exit(3);
  if (misdeed == Misdeed::hang) hang();
  if (misdeed == Misdeed::throw_in_call) throw std::runtime_error("in the call");
  if (misdeed == Misdeed::no_memory) throw Error(ErrorClass::memory, "none left");
  if (misdeed == Misdeed::lost) throw Error(ErrorClass::lost, job.device().name() + " fell off the bus");
  if (misdeed == Misdeed::pause) usleep(5000);
  if (misdeed == Misdeed::print) std::printf("printed by %s\n", job.job().key.c_str());
  if (misdeed == Misdeed::leave_a_child && fork() == 0) {
    std::ofstream(job.job().key) << getpid();
    hang();
  }
  if (misdeed == Misdeed::leave_a_child) {
    while (!std::filesystem::exists(job.job().key)) usleep(1000);
    std::abort();
  }
  if (misdeed == Misdeed::wrong_size) {
    job.output<std::uint64_t>(count + 1);
    return;
  }
  if (misdeed == Misdeed::wrong_number) return;
  static volatile std::uintptr_t nowhere = 16;
  signal(SIGSEGV, SIG_DFL);  // a sanitizer's would end the process in its own way
  const auto* in = job.input<std::uint64_t>(0);
  auto* out = job.output<std::uint64_t>(count);
  job.launch("misbehave", static_cast<std::int64_t>(count), [=](LaunchContext&) {
    if (misdeed == Misdeed::bad_pointer) *reinterpret_cast<volatile int*>(nowhere) = 1;
    if (misdeed == Misdeed::hang_on_stream) hang();
    if (misdeed == Misdeed::throw_on_stream) throw std::runtime_error("on the stream");
    for (std::uint64_t i = 0; i < count; ++i) out[i] = 3 * in[i];
  });
}

/// Says hello as a worker of `build` does, and hears the executor's.
void say_hello(WireChannel& channel, std::uint64_t protocol, const std::string& build) {
  channel.put(WireType::hello, WireWriter().number(protocol).text(build).number(1).text(misbehaving_kernel));
  channel.send();
  channel.receive();
}

/// A worker that has opened everything and answers its first job with `answer`.
void answer_with(WireChannel& channel, const std::function<void(std::uint64_t sequence)>& answer) {
  say_hello(channel, worker_protocol, build_id());
  while (auto message = channel.receive()) {
    if (message->type == WireType::open) {
      channel.put(WireType::opened, WireWriter().text(""));
      channel.send();
    }
    if (message->type == WireType::job) {
      const std::uint64_t sequence = message->reader().number();
      channel.put(WireType::begun, WireWriter().number(sequence));
      answer(sequence);
      channel.send();
    }
  }
}

/// An executor with a job that never ends; says which process does it, and waits to be killed.
int be_an_executor(const std::string& program, const std::string& mark) {
  JobExecutor jobs(open_devices("host:1x1"), isolated({program}));
  jobs.run({misbehaving_job(Misdeed::hang, 0, 1, mark)});
  return 0;
}

}  // namespace
}  // namespace shardwise::test

int main(int argc, char** argv) {
  using namespace shardwise;
  using namespace shardwise::test;
  const std::string mode = argc > 1 ? argv[1] : "serve", file = argc > 2 ? argv[2] : "";
  if (mode == "executor") return be_an_executor(argv[0], file);
  if (mode == "serve") return serve_isolated_jobs({{misbehaving_kernel, misbehave}});
  WireChannel channel(STDIN_FILENO);
  // Well until somebody has left the file, then its device cannot be opened.
  if (mode == "until") {
    if (!std::filesystem::exists(file)) return serve_isolated_jobs({{misbehaving_kernel, misbehave}});
    say_hello(channel, worker_protocol, build_id());
    if (channel.receive()) {
      channel.put(WireType::opened, WireWriter().text("the GPU is gone"));
      channel.send();
    }
    return 0;
  }
  if (mode == "other-build") say_hello(channel, worker_protocol, "0.0.1, commit old, cc 1");
  if (mode == "other-protocol") say_hello(channel, worker_protocol + 1, build_id());
  if (mode == "silent") hang();
  if (mode == "garbage") [[maybe_unused]]
    const auto written = write(STDIN_FILENO, "GET / HTTP/1.1\r\n\r\n", 18);
  if (mode == "half-a-hello") [[maybe_unused]]
    const auto written = write(STDIN_FILENO, "1JWS\1\0\0\0\100\0\0\0\0\0\0\0abc", 19);
  const auto result = [&](std::uint64_t sequence) {
    return WireWriter().number(sequence).number(1).number(0).number(0).text("").number(0);
  };
  if (mode == "wrong-job")
    answer_with(channel,
                [&](std::uint64_t sequence) { channel.put(WireType::result, result(sequence + 7)); });
  if (mode == "wrong-type")
    answer_with(channel, [&](std::uint64_t) { channel.put(WireType::opened, WireWriter().text("")); });
  if (mode == "short-result")
    answer_with(channel, [&](std::uint64_t sequence) {
      channel.put(WireType::result, WireWriter().number(sequence));
    });
  if (mode == "long-result")
    answer_with(channel, [&](std::uint64_t sequence) {
      WireWriter text = result(sequence);
      channel.put(WireType::result, text.number(1));
    });
  return 0;
}
