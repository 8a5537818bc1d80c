#pragma once

#include <string>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

/// An error that all ranks of a communicator throw alike, because they agreed on it: the same class, text and
/// exit code everywhere. Whoever catches it need not tell the other ranks.
class RankError final : public Error {
 public:
  RankError(ErrorClass error_class, const std::string& message, int rank, int exit_code)
      : Error(error_class, message), rank_(rank), exit_code_(exit_code) {}
  /// The rank it began on; the lowest, where several failed at once; -1 where it is nobody's alone (the ranks
  /// are not in the same collective).
  int rank() const noexcept { return rank_; }
  /// For the program: exit_code() of the class, or what that rank asked for (128 + a signal's number).
  int exit_code() const noexcept { return exit_code_; }

 private:
  int rank_;
  int exit_code_;
};

}  // namespace shardwise
