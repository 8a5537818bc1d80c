#include "shardwise/shard/hash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "shard/random.hpp"

namespace shardwise {
namespace {

std::vector<std::uint8_t> pattern(std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(i % 251);
  return data;
}

// The published test vectors of BLAKE3: byte i is i mod 251.
struct Vector {
  std::size_t bytes;
  const char* hex;
};
const Vector kVectors[] = {
    {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
    {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
    {2, "7b7015bb92cf0b318037702a6cdd81dee41224f734684c2c122cd6359cb1ee63"},
    {3, "e1be4d7a8ab5560aa4199eea339849ba8e293d55ca0a81006726d184519e647f"},
    {63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b"},
    {64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98"},
    {65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee"},
    {127, "d81293fda863f008c09e92fc382a81f5a0b4a1251cba1634016a0f86a6bd640d"},
    {128, "f17e570564b26578c33bb7f44643f539624b05df1a76c81f30acd548c44b45ef"},
    {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
    {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
    {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
    {2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
    {2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"},
    {3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"},
    {5120, "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833"},
    {8192, "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63"},
    {31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
    {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
};

TEST(Blake3, AgreesWithThePublishedVectors) {
  for (const Vector& vector : kVectors) {
    const auto data = pattern(vector.bytes);
    EXPECT_EQ(blake3_hex(data.data(), data.size()), vector.hex) << vector.bytes << " bytes";
  }
}

TEST(Blake3, ByteByByteIsTheSame) {
  for (const Vector& vector : kVectors) {
    const auto data = pattern(vector.bytes);
    Blake3 hasher;
    for (const std::uint8_t byte : data) hasher.update(&byte, 1);
    EXPECT_EQ(hasher.hex(), vector.hex) << vector.bytes << " bytes";
  }
}

TEST(Blake3, AnyCutIsTheSame) {
  test::Draw draw(21);
  const auto data = pattern(102400);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Blake3 hasher;
    const std::int64_t most = std::int64_t{1} << draw.whole(2, 16);
    for (std::size_t at = 0; at < data.size();) {
      const auto piece = std::min(data.size() - at, static_cast<std::size_t>(draw.whole(0, most)));
      hasher.update(data.data() + at, piece);
      at += piece;
    }
    EXPECT_EQ(hasher.hex(), kVectors[18].hex);
  }
}

// The digest may be read on the way without changing what follows; every prefix agrees with a hash of its
// own.
TEST(Blake3, ReadingOnTheWayChangesNothing) {
  const auto data = pattern(20000);
  Blake3 hasher;
  for (std::size_t at = 0; at < data.size(); at += 500) {
    EXPECT_EQ(hasher.hex(), blake3_hex(data.data(), at));
    hasher.update(data.data() + at, 500);
  }
}

TEST(Blake3, TextAndDigestBytes) {
  // "abc": the value quoted by every implementation.
  EXPECT_EQ(Blake3().update("abc").hex(), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
  EXPECT_EQ(Blake3().update("abc").digest()[0], 0x64);
}

TEST(Blake3, EveryBitCounts) {
  test::Draw draw(22);
  auto data = pattern(40000);
  const std::string before = blake3_hex(data.data(), data.size());
  for (int round = 0; round < 100; ++round) {
    auto& byte = data[static_cast<std::size_t>(draw.whole(0, 39999))];
    const auto flip = static_cast<std::uint8_t>(1u << draw.whole(0, 7));
    byte ^= flip;
    EXPECT_NE(blake3_hex(data.data(), data.size()), before);
    byte ^= flip;
  }
  EXPECT_EQ(blake3_hex(data.data(), data.size()), before);
}

}  // namespace
}  // namespace shardwise
