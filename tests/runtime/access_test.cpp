// Overlap of declared accesses, against the plain set of bytes that each one means.

#include "shardwise/runtime/access.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

std::set<std::uint64_t> bytes_of(const Access& a) {
  std::set<std::uint64_t> bytes;
  for (std::uint32_t j = 0; j < a.count1; ++j)
    for (std::uint32_t i = 0; i < a.count0; ++i)
      for (std::uint64_t k = 0; k < a.length; ++k) bytes.insert(a.begin + j * a.stride1 + i * a.stride0 + k);
  return bytes;
}

bool share_a_byte(const Access& a, const Access& b) {
  const std::set<std::uint64_t> in_b = bytes_of(b);
  for (const std::uint64_t byte : bytes_of(a))
    if (in_b.contains(byte)) return true;
  return false;
}

Access range(std::uint64_t begin, std::uint64_t length, AccessMode mode = AccessMode::write) {
  Access a;
  a.resource = 1;
  a.begin = begin;
  a.length = length;
  a.mode = mode;
  return a;
}

/// Mostly small boxes, some plain, some with rows that overlap one another, some empty.
Access random_access(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Access a = range(below(60), below(8));
  if (below(3) > 0) {
    a.count0 = static_cast<std::uint32_t>(below(5));
    a.stride0 = below(14);
    a.count1 = static_cast<std::uint32_t>(1 + below(3));
    a.stride1 = below(40);
  }
  return a;
}

TEST(AccessOverlap, AgreesWithTheSetOfBytes) {
  std::mt19937_64 random(20240607);
  int touching = 0, apart = 0;
  for (int trial = 0; trial < 40000; ++trial) {
    const Access a = random_access(random), b = random_access(random);
    const bool expected = share_a_byte(a, b);
    (expected ? touching : apart) += 1;
    ASSERT_EQ(conflicts(a, b), expected)
        << "trial " << trial << ": begin " << a.begin << " length " << a.length << " strides " << a.stride0
        << "," << a.stride1 << " counts " << a.count0 << "," << a.count1 << " against begin " << b.begin
        << " length " << b.length << " strides " << b.stride0 << "," << b.stride1 << " counts " << b.count0
        << "," << b.count1;
    ASSERT_EQ(conflicts(b, a), expected) << "trial " << trial << ", swapped";
  }
  // Both answers are well represented, or the comparison proves little.
  EXPECT_GT(touching, 8000);
  EXPECT_GT(apart, 8000);
}

TEST(AccessOverlap, EndIsOnePastTheLastByte) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const Access a = random_access(random);
    const std::set<std::uint64_t> bytes = bytes_of(a);
    ASSERT_EQ(a.end(), bytes.empty() ? a.begin : *bytes.rbegin() + 1);
    ASSERT_EQ(a.is_empty(), bytes.empty());
  }
}

TEST(AccessOverlap, CoversNeverClaimsTooMuch) {
  std::mt19937_64 random(11);
  int claimed = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const Access outer = random_access(random), inner = random_access(random);
    if (!covers(outer, inner)) continue;
    ++claimed;
    const std::set<std::uint64_t> in_outer = bytes_of(outer);
    for (const std::uint64_t byte : bytes_of(inner))
      ASSERT_TRUE(in_outer.contains(byte)) << "trial " << trial;
  }
  EXPECT_GT(claimed, 100);
  EXPECT_TRUE(covers(range(10, 20), range(10, 20)));
  EXPECT_TRUE(covers(range(10, 20), range(12, 3)));
  EXPECT_FALSE(covers(range(10, 20), range(9, 3)));
  EXPECT_FALSE(covers(range(10, 20), range(28, 3)));
}

TEST(AccessOverlap, RangesThatReachTheEndOfTheAddressSpace) {
  const std::uint64_t most = ~0ull;
  EXPECT_TRUE(conflicts(range(most - 7, 8), range(most - 3, 4)));
  EXPECT_TRUE(conflicts(range(0, most), range(most - 3, 2)));
  EXPECT_FALSE(conflicts(range(most - 7, 8), range(0, 100)));
  EXPECT_FALSE(conflicts(range(0, 10), range(10, 10)));
  EXPECT_TRUE(conflicts(range(0, 11), range(10, 10)));
}

TEST(AccessConflict, FollowsTheModes) {
  const AccessMode modes[] = {AccessMode::read, AccessMode::write, AccessMode::accumulate};
  for (const AccessMode x : modes)
    for (const AccessMode y : modes) {
      const bool commute = x == y && x != AccessMode::write;
      EXPECT_EQ(conflicts(range(0, 8, x), range(4, 8, y)), !commute);
      Access other = range(4, 8, y);
      other.resource = 2;
      EXPECT_FALSE(conflicts(range(0, 8, x), other)) << "different resources";
    }
}

TEST(AccessList, HoldsEightAndRefusesTheNinth) {
  AccessList list;
  for (std::size_t i = 0; i < AccessList::capacity; ++i) list.add(range(i, 1));
  EXPECT_EQ(list.size(), 8u);
  try {
    list.add(range(8, 1));
    FAIL() << "a ninth access was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::internal);
  }
  EXPECT_EQ(list.size(), 8u);
}

TEST(ResourceIds, NeverRepeat) {
  std::set<ResourceId> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(next_resource_id()).second);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace shardwise
