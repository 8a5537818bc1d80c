#include "npy.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

TEST(Npy, HeaderIsPaddedAndDataFollows) {
  const std::vector<double> values{1, 2, 3, 4, 5, 6};
  const std::string bytes = npy_bytes(values, {2, 3});
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t header =
      static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ((10 + header) % 64, 0u);
  EXPECT_EQ(bytes.substr(10, 56), "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)");
  EXPECT_EQ(bytes[10 + header - 1], '\n');
  ASSERT_EQ(bytes.size(), 10 + header + 48);
  EXPECT_EQ(std::memcmp(bytes.data() + 10 + header, values.data(), 48), 0);
}

TEST(Npy, OneDimensionKeepsItsComma) {
  const std::vector<std::int64_t> values{7};
  EXPECT_NE(npy_bytes(values, {1}).find("'<i8', 'fortran_order': False, 'shape': (1, ), }"),
            std::string::npos);
}

TEST(Npy, ShapeThatDoesNotFitIsABug) {
  const std::vector<double> values{1, 2};
  EXPECT_THROW(npy_bytes(values, {3}), Error);
}

}  // namespace
}  // namespace shardwise::program
