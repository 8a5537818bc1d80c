#include "shardwise/runtime/error.hpp"

namespace shardwise {

const char* to_string(ErrorClass error_class) noexcept {
  switch (error_class) {
    case ErrorClass::usage:
      return "usage";
    case ErrorClass::data:
      return "data";
    case ErrorClass::state:
      return "state";
    case ErrorClass::device:
      return "device";
    case ErrorClass::memory:
      return "memory";
    case ErrorClass::budget:
      return "budget";
    case ErrorClass::poisoned:
      return "poisoned";
    case ErrorClass::lost:
      return "lost";
    case ErrorClass::io:
      return "io";
    case ErrorClass::mismatch:
      return "mismatch";
    case ErrorClass::not_converged:
      return "not_converged";
    case ErrorClass::interrupted:
      return "interrupted";
    case ErrorClass::internal:
      return "internal";
  }
  return "internal";
}

int exit_code(ErrorClass error_class) noexcept {
  switch (error_class) {
    case ErrorClass::usage:
      return 2;
    case ErrorClass::data:
      return 3;
    default:
      return 1;
  }
}

std::string error_text(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace shardwise
