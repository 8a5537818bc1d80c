#pragma once
// The form that the program's binary files share: what is in it is said by a JSON header, and a checksum
// seals it.
//
//   offset  0  magic, 8 bytes
//           8  u32 schema
//          12  u32 zero
//          16  u64 bytes of the whole file, the checksum included
//          24  u64 bytes of the header
//          32  header, JSON
//              payload
//    end - 32  BLAKE3 of everything before it
//
// Little-endian.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "report_file.hpp"

namespace shardwise::program {

/// One sort of file, and what messages say about it.
struct SealedKind {
  std::string_view magic;  ///< 8 bytes
  std::uint32_t schema;
  std::string_view stranger;       ///< of a file of another sort: "no state of a solve; give a file of ..."
  std::string_view cut_remedy;     ///< of one that is cut short
  std::string_view broken_remedy;  ///< of a damaged one
};

std::string seal(const SealedKind& kind, const Json& header, std::initializer_list<std::string_view> payload);

struct Unsealed {
  std::string_view header, payload;  ///< within the bytes given
};
/// Throws a data error that names the file (`path` is for messages) and what is wrong with it: another sort,
/// cut short, a schema of another version, damaged.
Unsealed unseal(const SealedKind& kind, std::string_view bytes, const std::string& path);

[[noreturn]] void throw_damaged(const SealedKind& kind, const std::string& path, const std::string& what);

/// The bytes of a file. Throws a data error with the system's reason.
std::string read_sealed(const std::string& path);

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace shardwise::program
