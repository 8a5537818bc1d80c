#pragma once
// The ranks that a test program runs on: this process alone, or those that mpirun started.

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "shardwise/cluster/communicator.hpp"

namespace shardwise::testing {

/// Set by the program's main() for the whole run.
Communicator& ranks();

/// Runs body() on every rank and gives the RankError that all ranks have to throw.
template <class Body>
RankError agreed_error(Body&& body) {
  try {
    try {
      body();
    } catch (const Error& error) {
      ranks().fail(error);
    }
    ranks().barrier("nothing was thrown");
  } catch (const RankError& error) {
    return error;
  }
  ADD_FAILURE() << "rank " << ranks().rank() << ": nothing was thrown";
  return RankError(ErrorClass::internal, "nothing was thrown", -1, -1);
}

inline std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}
inline std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace shardwise::testing
