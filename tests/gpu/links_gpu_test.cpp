// Copies between GPUs and host memory, and what is measured of them.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>

#include "gpu/gpu_fixture.hpp"
#include "gpu/scenario_rows.hpp"
#include "runtime/cuda/cuda_peer.hpp"
#include "runtime/cuda/cuda_stager.hpp"
#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/links.hpp"

namespace shardwise {
namespace {

using test::Gpu;
using test::Word;

Operation delay(double milliseconds) {
  Operation operation;
  operation.name = "delay";
  operation.body = [milliseconds](LaunchContext& context) { test::launch_delay(context, milliseconds); };
  return operation;
}

TEST_F(Gpu, PeerCopiesInBothDirections) {
  SKIP_WITHOUT_GPUS(2);
  const DeviceSet devices = open_devices("cuda");
  for (int from = 0; from < devices.size(); ++from)
    for (int to = 0; to < devices.size(); ++to) {
      if (from == to) continue;
      const auto source = devices[from].create_stream("source"), target = devices[to].create_stream("target");
      std::vector<Word> in(1 << 20), out(in.size(), 0);
      std::iota(in.begin(), in.end(), static_cast<Word>(from * 100 + to));
      const Buffer<Word> x(*source, in.size(), "x"), y(*target, in.size(), "y");
      source->enqueue(copy_operation("in", x.data(), in.data(), x.bytes(), {x.writes()}));
      target->wait(source->record());
      target->enqueue(copy_operation("peer", y, x));
      target->enqueue(copy_operation("out", out.data(), y.data(), y.bytes(), {y.reads()}));
      target->synchronize();
      source->synchronize();
      EXPECT_EQ(out, in) << from << " to " << to << (cuda_pair_is_staged(from, to) ? ", staged" : ", peer");
    }
}

TEST_F(Gpu, APairWithoutPeerAccessIsStagedInPieces) {
  SKIP_WITHOUT_GPUS(2);
  const DeviceSet devices = open_devices("cuda:0,1");
  const bool was_staged = cuda_pair_is_staged(0, 1);
  set_cuda_pair_staged(0, 1, true);
  {
    const DeviceSet again = open_devices("cuda:0,1");
    EXPECT_FALSE(again.can_peer(0, 1));
    EXPECT_EQ(again.can_peer(1, 0), !cuda_pair_is_staged(1, 0));
    EXPECT_TRUE(again.can_peer(0, 0));
    ASSERT_EQ(again.warnings().size(), 1u);
    EXPECT_NE(again.warnings()[0].find("cuda:0 to cuda:1"), std::string::npos) << again.warnings()[0];
    OpenOptions strict;
    strict.require_peer = true;
    EXPECT_THROW(open_devices("cuda:0,1", strict), Error);
    EXPECT_EQ(measure_links(again)[0].path, LinkPath::staged);
  }
  for (const std::uint64_t size :
       {std::uint64_t{1}, CudaStager::piece_bytes / 4, CudaStager::piece_bytes * 5 / 4 + 3}) {
    const auto source = devices[0].create_stream("source"), target = devices[1].create_stream("target");
    std::vector<Word> in(size), out(size, 0);
    std::iota(in.begin(), in.end(), 9u);
    const Buffer<Word> x(*source, size, "x"), y(*target, size, "y");
    source->enqueue(delay(20));
    source->enqueue(copy_operation("in", x.data(), in.data(), x.bytes(), {x.writes()}));
    target->wait(source->record());
    target->enqueue(copy_operation("staged", y, x));
    target->enqueue(copy_operation("out", out.data(), y.data(), y.bytes(), {y.reads()}));
    target->synchronize();
    source->synchronize();
    EXPECT_EQ(out, in) << size;
  }
  set_cuda_pair_staged(0, 1, was_staged);
  expect_current("after staging");
}

TEST_F(Gpu, PageableCopiesAreInOrderAndDoNotBlock) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda:0");
  const auto stream = devices[0].create_stream("s");
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{10000}, CudaStager::piece_bytes / 4,
                                   CudaStager::piece_bytes / 4 + 1, CudaStager::piece_bytes * 7 / 4 + 5}) {
    std::vector<Word> in(size), through(size, 0), out(size, 0);
    std::iota(in.begin(), in.end(), 3u);
    const Buffer<Word> x(*stream, size, "x"), y(*stream, size, "y");
    const auto begin = std::chrono::steady_clock::now();
    stream->enqueue(delay(300));
    stream->enqueue(copy_operation("in", x.data(), in.data(), x.bytes(), {x.writes()}));
    stream->enqueue(copy_operation("to host", through.data(), x.data(), x.bytes(), {x.reads()}));
    // Read where the stream comes to it, not when it is enqueued: `through` is empty yet.
    stream->enqueue(copy_operation("and back", y.data(), through.data(), y.bytes(), {y.writes()}));
    stream->enqueue(copy_operation("out", out.data(), y.data(), y.bytes(), {y.reads()}));
    const Event event = stream->record();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 0.2) << "enqueued while the GPU was busy";
    EXPECT_FALSE(event.is_signalled());
    event.wait_on_host();
    EXPECT_EQ(out, in) << size;
    stream->synchronize();
  }
}

TEST_F(Gpu, TimedEventsHaveTheGpusTime) {
  SKIP_WITHOUT_GPUS(1);
  const DeviceSet devices = open_devices("cuda");
  for (int d = 0; d < devices.size(); ++d) {
    const auto stream = devices[d].create_stream("s");
    for (int round = 0; round < 3; ++round) {  // from the second on with events of the pool
      const Event begin = stream->record_timed();
      stream->enqueue(delay(30));
      const Event middle = stream->record_timed();
      stream->enqueue(delay(10));
      const Event end = stream->record_timed(), plain = stream->record();
      expect_current("after record_timed");
      EXPECT_THROW((void)seconds_between(begin, end), Error) << "not over yet";
      stream->synchronize();
      EXPECT_GT(seconds_between(begin, middle), 0.015);
      EXPECT_LT(seconds_between(begin, middle), 1.0);
      EXPECT_NEAR(seconds_between(begin, end), seconds_between(begin, middle) + seconds_between(middle, end),
                  1e-5);
      EXPECT_THROW((void)seconds_between(begin, plain), Error);
      expect_current("after seconds_between");
    }
  }
}

TEST_F(Gpu, LinksAreMeasured) {
  SKIP_WITHOUT_GPUS(1);
  OpenOptions options;
  options.allow_mixed = true;
  for (const std::string spec : {"cuda", "host:1x1+cuda:0"}) {
    const DeviceSet devices = open_devices(spec, options);
    for (const DeviceLink& link : measure_links(devices)) {
      std::printf("%s to %s: %s, peer %d, rank %d, %.1f GB/s, %.1f us\n", devices[link.from].name().c_str(),
                  devices[link.to].name().c_str(), to_string(link.path), link.peer, link.performance_rank,
                  link.bytes_per_s * 1e-9, link.latency_s * 1e6);
      EXPECT_GT(link.bytes_per_s, 1e8);
      EXPECT_LT(link.bytes_per_s, 1e14);
      EXPECT_GT(link.latency_s, 0);
      EXPECT_EQ(link.peer, devices.can_peer(link.from, link.to));
      EXPECT_EQ(link.path == LinkPath::host, devices[link.from].kind() != devices[link.to].kind());
    }
    expect_current("after measuring");
  }
}

}  // namespace
}  // namespace shardwise
