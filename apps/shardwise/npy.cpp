#include "npy.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "scene/file_util.hpp"
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

namespace {

[[noreturn]] void bad_npy(const std::string& path, const std::string& what) {
  throw_data(
      fmt::format("'{}' {}; an NPY file of version 1 or 2 with <f8, <f4, <i8 or <i4 is needed", path, what));
}

template <class T>
void convert(const char* bytes, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(value);
  }
}

}  // namespace

NpyArray read_npy(const std::string& path) {
  const std::string bytes = read_whole_file(path, "array");
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY") != 0) bad_npy(path, "is no NPY file");
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const bool second = byte(6) == 2;
  if (byte(6) != 1 && !second) bad_npy(path, fmt::format("has version {}", byte(6)));
  const std::size_t begin = second ? 12 : 10;
  const std::size_t length = byte(8) | byte(9) << 8 | (second ? byte(10) << 16 | byte(11) << 24 : 0);
  if (bytes.size() < begin + length) bad_npy(path, "ends inside its header");
  const std::string header = bytes.substr(begin, length);
  const auto after = [&](const std::string& key) {
    const std::size_t at = header.find("'" + key + "'");
    const std::size_t colon = at == std::string::npos ? at : header.find(':', at);
    if (colon == std::string::npos) bad_npy(path, fmt::format("has no '{}' in its header", key));
    return header.substr(colon + 1);
  };
  const bool fortran = after("fortran_order").find("True") < after("fortran_order").find(',');
  NpyArray array;
  const std::string shape = after("shape");
  const std::size_t open = shape.find('('), close = shape.find(')');
  if (open == std::string::npos || close == std::string::npos) bad_npy(path, "has no shape");
  std::size_t count = 1;
  for (std::size_t at = open + 1; at < close;) {
    char* end = nullptr;
    const long long size = std::strtoll(shape.c_str() + at, &end, 10);
    const auto next = static_cast<std::size_t>(end - shape.c_str());
    if (next == at) break;
    if (size < 1 || size > (1LL << 40)) bad_npy(path, fmt::format("has a dimension of size {}", size));
    array.shape.push_back(size);
    // More values than the file has bytes are too many, and their product may not fit a number.
    if (static_cast<std::size_t>(size) > bytes.size() / count)
      bad_npy(path, fmt::format("has {} bytes for a shape of {} values and more", bytes.size(),
                                static_cast<double>(count) * static_cast<double>(size)));
    count *= static_cast<std::size_t>(size);
    at = shape.find(',', next);
    if (at == std::string::npos || at > close) break;
    ++at;
  }
  if (array.shape.empty() || array.shape.size() > 3)
    bad_npy(path, fmt::format("has {} dimensions (1 to 3)", array.shape.size()));
  const std::string text = after("descr");
  const std::string type = text.substr(std::min(text.find_first_not_of(' '), text.size()), 8);
  const auto is = [&](const char* name) { return type.find(name) != std::string::npos; };
  const std::size_t item = is("<f8") || is("<i8") ? 8 : is("<f4") || is("<i4") ? 4 : 0;
  if (item == 0) bad_npy(path, fmt::format("has the type {}", type.substr(0, type.find(','))));
  if (bytes.size() - begin - length != count * item)
    bad_npy(path, fmt::format("has {} bytes of data for {} values of {}", bytes.size() - begin - length,
                              count, item));
  std::vector<double> raw(count);
  const char* data = bytes.data() + begin + length;
  is("<f8")   ? convert<double>(data, raw)
  : is("<i8") ? convert<std::int64_t>(data, raw)
  : is("<f4") ? convert<float>(data, raw)
              : convert<std::int32_t>(data, raw);
  if (fortran) {
    array.values = std::move(raw);
    return array;
  }
  // C order: the last index is fastest.
  const std::int64_t n0 = array.shape[0], n1 = array.shape.size() > 1 ? array.shape[1] : 1,
                     n2 = array.shape.size() > 2 ? array.shape[2] : 1;
  array.values.resize(count);
  for (std::int64_t i = 0; i < n0; ++i)
    for (std::int64_t j = 0; j < n1; ++j)
      for (std::int64_t k = 0; k < n2; ++k)
        array.values[static_cast<std::size_t>(i + n0 * (j + n1 * k))] =
            raw[static_cast<std::size_t>(k + n2 * (j + n1 * i))];
  return array;
}

}  // namespace shardwise::program
