// Memory, buffers and copies: every byte counted, released in stream order, and refused with numbers.

#include "shardwise/runtime/buffer.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <numeric>

#include "shardwise/runtime/copy.hpp"
#include "shardwise/runtime/devices.hpp"

namespace shardwise {
namespace {

template <class T>
constexpr bool copyable = std::is_copy_constructible_v<T> || std::is_copy_assignable_v<T>;
static_assert(!copyable<Memory> && !copyable<Buffer<int>>);
static_assert(std::is_nothrow_move_constructible_v<Memory> && std::is_nothrow_move_assignable_v<Memory>);
static_assert(!std::is_constructible_v<stream_ref, int> &&
              !std::is_constructible_v<stream_ref, std::nullptr_t>);

class Buffers : public ::testing::TestWithParam<const char*> {
 protected:
  DeviceSet devices_ = open_devices(GetParam());
  Device& device_ = devices_[0];
  std::unique_ptr<Stream> stream_ = device_.create_stream("s");
  MemoryCounter& work_ = device_.memory(MemoryUse::work);
  MemoryCounter& scene_ = device_.memory(MemoryUse::scene);
};

INSTANTIATE_TEST_SUITE_P(Platforms, Buffers, ::testing::Values("host:2x1", "sim:2"), [](const auto& info) {
  return std::string(info.param).substr(0, info.param[0] == 'h' ? 4 : 3);
});

TEST_P(Buffers, BytesAreCountedByUse) {
  EXPECT_EQ(work_.current(), 0u);
  {
    const Buffer<double> a(*stream_, 100, "a");
    EXPECT_EQ(work_.current(), 800u);
    const Buffer<char> b(*stream_, 7, "b", MemoryUse::scene);
    EXPECT_EQ(work_.current(), 800u);
    EXPECT_EQ(scene_.current(), 7u);
    EXPECT_EQ(devices_[1].memory(MemoryUse::work).current(), 0u);
    {
      const Buffer<char> c(*stream_, 50, "c");
      EXPECT_EQ(work_.current(), 850u);
    }
    stream_->synchronize();
    EXPECT_EQ(work_.current(), 800u);
    EXPECT_EQ(work_.peak(), 850u);
    work_.reset_peak();
    EXPECT_EQ(work_.peak(), 800u);
  }
  stream_->synchronize();
  EXPECT_EQ(work_.current(), 0u);
  EXPECT_EQ(scene_.current(), 0u);
  EXPECT_EQ(work_.peak(), 800u);
  EXPECT_EQ(scene_.peak(), 7u);
}

TEST_P(Buffers, FreeMemoryGoesDownByWhatIsInUse) {
  const std::uint64_t before = device_.free_memory();
  const Buffer<char> a(*stream_, 12345, "a"), b(*stream_, 55, "b", MemoryUse::scene);
  EXPECT_EQ(device_.free_memory(), before - 12400);
}

TEST_P(Buffers, AMovedFromBufferIsEmpty) {
  Buffer<int> a(*stream_, 10, "a");
  int* const data = a.data();
  const ResourceId resource = a.memory().resource();
  Buffer<int> b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.size(), 10u);
  EXPECT_EQ(b.memory().resource(), resource);
  EXPECT_EQ(b.memory().name(), "a");
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: the moved-from state is a promise
  EXPECT_EQ(a.size(), 0u);
  EXPECT_EQ(a.bytes(), 0u);
  EXPECT_EQ(a.memory().resource(), 0u);

  Buffer<int> c(*stream_, 5, "c");
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(b.data(), nullptr);  // NOLINT
  stream_->synchronize();
  EXPECT_EQ(work_.current(), 40u) << "what c held before is given back";
  c = Buffer<int>();
  stream_->synchronize();
  EXPECT_EQ(work_.current(), 0u);
}

TEST_P(Buffers, AnEmptyBufferHoldsNothing) {
  {
    const Buffer<int> none, zero(*stream_, 0, "zero");
    EXPECT_EQ(none.data(), nullptr);
    EXPECT_EQ(zero.data(), nullptr);
    EXPECT_EQ(zero.bytes(), 0u);
    EXPECT_NE(zero.memory().resource(), 0u);
  }
  stream_->synchronize();
  EXPECT_EQ(work_.peak(), 0u);
}

TEST_P(Buffers, AFailedAllocationSaysHowMuchWasAskedFor) {
  const Buffer<char> held(*stream_, 1000, "held");
  const std::uint64_t huge = device_.info().memory_bytes + 1;
  try {
    const Buffer<char> buffer(*stream_, huge, "the whole city");
    FAIL() << "allocated " << huge << " bytes";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.error_class(), ErrorClass::memory);
    for (const std::string& part :
         {device_.name(), std::string("the whole city"), std::to_string(huge) + " bytes asked for",
          std::string("1000 bytes in use"), std::to_string(device_.free_memory()) + " bytes free"})
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
  EXPECT_EQ(work_.current(), 1000u) << "a failed allocation is not counted";
  EXPECT_EQ(work_.peak(), 1000u);
}

TEST_P(Buffers, ASizeThatOverflowsIsRefused) {
  try {
    const Buffer<double> buffer(*stream_, (1ull << 61) + 1, "wrapped");  // 8 bytes, modulo 2^64
    FAIL() << buffer.bytes() << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::memory);
    EXPECT_NE(std::string(error.what()).find("2305843009213693953 elements of 8"), std::string::npos)
        << error.what();
  }
}

TEST_P(Buffers, AccessesAreInBytesOfTheResource) {
  const Buffer<double> a(*stream_, 10, "a");
  EXPECT_EQ(a.reads().length, 80u);
  EXPECT_EQ(a.reads().mode, AccessMode::read);
  EXPECT_EQ(a.writes().mode, AccessMode::write);
  EXPECT_EQ(a.accumulates().mode, AccessMode::accumulate);
  const Access part = a.access(AccessMode::write, 3, 4);
  EXPECT_EQ(part.begin, 24u);
  EXPECT_EQ(part.length, 32u);
  EXPECT_EQ(part.resource, a.memory().resource());
}

TEST_P(Buffers, AreAligned) {
  for (const std::uint64_t size : {1u, 63u, 64u, 65u, 4097u}) {
    const Buffer<char> buffer(*stream_, size, "b");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  }
}

TEST_P(Buffers, CopiesAndZerosRunInOrder) {
  const auto other = devices_[1].create_stream("other");
  std::vector<int> in(1000), out(1000, -1), zeros(1000, -1);
  std::iota(in.begin(), in.end(), 5);
  const Buffer<int> a(*stream_, 1000, "a"), b(*other, 1200, "b");
  stream_->enqueue(copy_operation("in", a.data(), in.data(), a.bytes(), {a.writes()}));
  other->wait(stream_->record());
  other->enqueue(copy_operation("across", b, a));
  other->enqueue(copy_operation("out", out.data(), b.data(), a.bytes(), {b.reads()}));
  other->enqueue(zero_operation("zero", b.data(), b.bytes(), {b.writes()}));
  other->enqueue(copy_operation("zeros", zeros.data(), b.data(), a.bytes(), {b.reads()}));
  other->enqueue(copy_operation("nothing", nullptr, nullptr, 0, {}));
  other->synchronize();
  EXPECT_EQ(out, in);
  EXPECT_EQ(zeros, std::vector<int>(1000, 0));
  stream_->synchronize();
}

TEST_P(Buffers, ACopyIntoASmallerBufferIsRefused) {
  const Buffer<int> small(*stream_, 3, "small"), large(*stream_, 4, "large");
  try {
    copy_operation("shrink", small, large);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::internal);
    EXPECT_NE(std::string(error.what()).find("4 elements of large into 3 of small"), std::string::npos)
        << error.what();
  }
}

TEST_P(Buffers, CopyOperationsDeclareWhatTheyTouch) {
  const Buffer<int> a(*stream_, 4, "a"), b(*stream_, 8, "b");
  const Operation copy = copy_operation("copy", b, a);
  EXPECT_EQ(copy.kind, OperationKind::copy);
  EXPECT_EQ(copy.bytes, 16u);
  ASSERT_EQ(copy.accesses.size(), 2u);
  EXPECT_TRUE(covers(*copy.accesses.begin(), b.access(AccessMode::write, 0, 4)));
  EXPECT_EQ(copy.accesses.begin()->end(), 16u);
  EXPECT_EQ(copy.accesses.begin()->mode, AccessMode::write);
  EXPECT_EQ((copy.accesses.begin() + 1)->mode, AccessMode::read);
}

TEST_P(Buffers, ReleasesRunAlsoBehindAnError) {
  {
    const Buffer<char> a(*stream_, 100, "a");
    Operation bad;
    bad.name = "bad";
    bad.body = [](LaunchContext&) { throw Error(ErrorClass::device, "boom"); };
    stream_->enqueue(std::move(bad));
  }
  EXPECT_THROW(stream_->synchronize(), Error);
  EXPECT_EQ(work_.current(), 0u);
}

TEST(HostRelease, WaitsForTheStream) {
  const DeviceSet devices = open_devices("host:1x1");
  const auto stream = devices[0].create_stream("s");
  MemoryCounter& work = devices[0].memory(MemoryUse::work);
  std::latch go(1);
  std::vector<int> seen;
  {
    const Buffer<int> a(*stream, 100, "a");
    Operation fill;
    fill.body = [&go, data = a.data(), &seen](LaunchContext&) {
      go.wait();
      for (int i = 0; i < 100; ++i) data[i] = i;
      seen.assign(data, data + 100);
    };
    stream->enqueue(std::move(fill));
  }
  EXPECT_EQ(work.current(), 400u) << "the owner is gone, the stream is not there yet";
  go.count_down();
  stream->synchronize();
  EXPECT_EQ(work.current(), 0u);
  EXPECT_EQ(seen[99], 99);
}

}  // namespace
}  // namespace shardwise
