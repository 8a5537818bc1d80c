#include "npy.hpp"

#include <fmt/core.h>

#include <bit>
#include <cstddef>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

static_assert(std::endian::native == std::endian::little, "the writer copies the machine's bytes");

std::string encode(const char* type, const void* data, std::size_t count, std::size_t item,
                   const std::vector<std::int64_t>& shape) {
  std::string sizes;
  std::size_t product = 1;
  for (const std::int64_t size : shape) {
    sizes += fmt::format("{}, ", size);
    product *= static_cast<std::size_t>(size);
  }
  if (product != count) {
    throw Error(ErrorClass::internal, fmt::format("npy: {} values do not fill the shape ({})", count, sizes));
  }
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, sizes);
  constexpr std::size_t prefix = 10;  // magic, version, length of the header
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';

  std::string bytes = "\x93NUMPY";
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(static_cast<const char*>(data), count * item);
  return bytes;
}

}  // namespace

std::string npy_bytes(std::span<const double> values, const std::vector<std::int64_t>& shape) {
  return encode("<f8", values.data(), values.size(), sizeof(double), shape);
}

std::string npy_bytes(std::span<const std::int64_t> values, const std::vector<std::int64_t>& shape) {
  return encode("<i8", values.data(), values.size(), sizeof(std::int64_t), shape);
}

}  // namespace shardwise::program
