#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "shardwise/runtime/error.hpp"

namespace shardwise {

/// Called, from any thread, with the message of an error that nobody waited for. The default prints one line
/// on standard error.
void set_error_hook(std::function<void(const std::string&)> hook);
void report_unwaited_error(const std::string& message) noexcept;

/// A result that is being computed. Move-only. wait() finishes the call: it throws the call's error, runs its
/// hooks on this thread, and may be repeated. A Pending that is destroyed unwaited waits, frees, and gives
/// its error to the error hook. A moved-from Pending is empty: wait() on it is a usage error.
template <class T>
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  explicit Pending(std::function<T()> finish) : finish_(std::move(finish)) {}
  Pending(Pending&& other) noexcept
      : finish_(std::exchange(other.finish_, nullptr)), value_(std::exchange(other.value_, std::nullopt)) {}
  Pending& operator=(Pending&& other) noexcept {
    if (this != &other) {
      settle();
      finish_ = std::exchange(other.finish_, nullptr);
      value_ = std::exchange(other.value_, std::nullopt);
    }
    return *this;
  }
  ~Pending() { settle(); }

  /// Finishes the call and keeps its result.
  T& wait() {
    if (!value_) {
      if (!finish_) throw_usage("Pending::wait: nothing is pending (moved from, or already failed)");
      auto finish = std::exchange(finish_, nullptr);
      value_.emplace(finish());
    }
    return *value_;
  }

  /// Finishes the call and hands the result over.
  T get() {
    wait();
    T result = std::move(*value_);
    value_.reset();
    return result;
  }

 private:
  void settle() noexcept {
    if (!finish_) return;
    try {
      std::exchange(finish_, nullptr)();
    } catch (const std::exception& error) {
      report_unwaited_error(error.what());
    } catch (...) {
      report_unwaited_error("unknown error");
    }
  }

  std::function<T()> finish_;
  std::optional<T> value_;
};

}  // namespace shardwise
