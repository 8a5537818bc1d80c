#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace shardwise::program {

/// Shows how far a long step has come, on standard error: a bar with rate and time left on a terminal, else a
/// line every 10 s. Silent with --quiet. One thread.
class Progress {
 public:
  /// `step` says what runs; `unit` what is counted ("lanes").
  Progress(std::string step, std::string unit);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends the bar's line.
  ~Progress();

  void update(std::int64_t done, std::int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string step_, unit_;
  bool terminal_ = false, shown_ = false;
  Clock::time_point start_, last_;
};

/// "12.3 M" for 12300000; plain below 10,000.
std::string short_count(double value);
/// "3.2 s", "4 min 10 s", "2 h 5 min".
std::string short_time(double seconds);

}  // namespace shardwise::program
