#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace shardwise {

/// What kind of thing went wrong. The program's exit code follows from it (exit_code()).
enum class ErrorClass {
  usage,     ///< a wrong argument, option or device; an output that cannot be written, found before the run
  data,      ///< an input file that is missing, damaged or means nothing
  state,     ///< a call at the wrong time: a scene that is not built, updates that are pending
  device,    ///< a launch, copy or driver call failed
  memory,    ///< an allocation failed
  budget,    ///< a plan does not fit the memory that was promised
  poisoned,  ///< a scene whose replicas may differ; build() repairs it
  lost,      ///< a device went away
  io,        ///< a file could not be written during the run
  mismatch,  ///< --verify found a difference
  not_converged,  ///< a solver stopped short
  interrupted,    ///< cancelled by the caller or a signal
  internal,       ///< a bug in shardwise
};

/// The word that reports and logs use for a class.
const char* to_string(ErrorClass error_class) noexcept;

/// 2 for usage, 3 for data, 1 for everything else. (Signals exit with 128 + their number; the program does
/// that.)
int exit_code(ErrorClass error_class) noexcept;

/// Every exception that shardwise throws. The text says what was wrong, the value found, where, and what to
/// do.
class Error : public std::runtime_error {
 public:
  Error(ErrorClass error_class, const std::string& message)
      : std::runtime_error(message), error_class_(error_class) {}
  ErrorClass error_class() const noexcept { return error_class_; }

 private:
  ErrorClass error_class_;
};

/// An operation was not run, because something that it waits for failed: the consequence of another error,
/// which is the one to report.
class DependencyError final : public Error {
 public:
  explicit DependencyError(const std::string& message) : Error(ErrorClass::device, message) {}
};

/// The text of a stored exception; empty for none.
std::string error_text(const std::exception_ptr& error);

[[noreturn]] inline void throw_usage(const std::string& message) {
  throw Error(ErrorClass::usage, message);
}
[[noreturn]] inline void throw_data(const std::string& message) {
  throw Error(ErrorClass::data, message);
}
[[noreturn]] inline void throw_state(const std::string& message) {
  throw Error(ErrorClass::state, message);
}

}  // namespace shardwise
