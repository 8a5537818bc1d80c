#include "shardwise/numeric/philox.hpp"

#include <Random123/philox.h>
#include <gtest/gtest.h>

#include <random>

#include "shardwise/numeric/random_streams.hpp"

namespace shardwise {
namespace {

void expect_words(PhiloxWords words, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  EXPECT_EQ(words.word[0], a);
  EXPECT_EQ(words.word[1], b);
  EXPECT_EQ(words.word[2], c);
  EXPECT_EQ(words.word[3], d);
}

TEST(Philox, KnownAnswers) {
  expect_words(philox4x32_10({{0, 0, 0, 0}}, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  const std::uint32_t ones = 0xffffffff;
  expect_words(philox4x32_10({{ones, ones, ones, ones}}, ones, ones), 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
               0x6d5451fd);
  expect_words(philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0),
               0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
  expect_words(philox(17, 0, 0), 0x68a7c603, 0xafd47bf5, 0x3c89ed71, 0x06ddc391);
}

TEST(Philox, FirstWordAsFloat) {
  const std::uint64_t seed = 0x123456789ABCDEF0u, far = (1ull << 32) + 5;
  EXPECT_FLOAT_EQ(philox(17, 0, 0).uniform_float(0), 0.408810019f);
  EXPECT_FLOAT_EQ(philox(17, 0, 1).uniform_float(0), 0.560335636f);
  EXPECT_FLOAT_EQ(philox(17, 1, 0).uniform_float(0), 0.645452678f);
  EXPECT_FLOAT_EQ(philox(17, 65535, 0).uniform_float(0), 0.283178508f);
  EXPECT_FLOAT_EQ(philox(17, far, 0).uniform_float(0), 0.019761205f);
  EXPECT_FLOAT_EQ(philox(0, 0, 0).uniform_float(0), 0.399046421f);
  EXPECT_FLOAT_EQ(philox(seed, 0, 0).uniform_float(0), 0.035836875f);
  EXPECT_FLOAT_EQ(philox(seed, far, 1).uniform_float(0), 0.311539292f);
}

TEST(Philox, EqualsRandom123) {
  std::mt19937_64 random(1);
  r123::Philox4x32 oracle;
  for (int k = 0; k < 2000; ++k) {
    const std::uint64_t seed = random(), lane = random();
    const auto stream = static_cast<std::uint32_t>(random()), block = static_cast<std::uint32_t>(random());
    const auto expected =
        oracle({{static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(lane >> 32), stream, block}},
               {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
    expect_words(philox(seed, lane, stream, block), expected[0], expected[1], expected[2], expected[3]);
  }
}

TEST(Philox, ConversionsStayInRange) {
  const PhiloxWords ones{{~0u, ~0u, ~0u, ~0u}}, zeros{{0, 0, 0, 0}};
  EXPECT_LT(ones.uniform_float(0), 1.0f);
  EXPECT_LT(ones.uniform_double(1), 1.0);
  EXPECT_EQ(ones.index(0, 4000000000u), 3999999999u);
  EXPECT_EQ(zeros.uniform_double(0), 0.0);
  EXPECT_EQ(zeros.index(0, 7), 0u);
  std::mt19937_64 random(2);
  for (int k = 0; k < 1000; ++k) {
    const PhiloxWords words = philox(random(), random(), 3);
    const auto count = static_cast<std::uint32_t>(random());
    const auto expected = static_cast<unsigned __int128>(words.wide(1)) * count >> 64;
    EXPECT_EQ(words.index(1, count), static_cast<std::uint32_t>(expected));
  }
}

TEST(RandomStreams, AreDisjoint) {
  EXPECT_EQ(random_stream(CoverageDraw::rotation), 0x00010000u);
  EXPECT_EQ(random_stream(CoverageDraw::roulette), 0x00010001u);
}

}  // namespace
}  // namespace shardwise
