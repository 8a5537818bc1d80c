#pragma once
// NPY files, version 1.0 of the format that NumPy documents (numpy.lib.format): magic, version, a Python
// literal padded to a multiple of 64 bytes, then the array in C order, little-endian.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardwise::program {

/// The bytes of a file that holds `values` as `<f8` with the given shape. The product of the shape must be
/// the size.
std::string npy_bytes(std::span<const double> values, const std::vector<std::int64_t>& shape);
/// The same for `<i8`.
std::string npy_bytes(std::span<const std::int64_t> values, const std::vector<std::int64_t>& shape);

/// An array read from a file, converted to double, its first index fastest.
struct NpyArray {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// Reads `<f8`, `<f4`, `<i8` or `<i4` of up to three dimensions, in C or Fortran order. Throws data errors
/// that name the file and what is wrong with it.
NpyArray read_npy(const std::string& path);

}  // namespace shardwise::program
