#include "progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "log.hpp"
#include "ranks.hpp"

namespace shardwise::program {

Progress::Progress(std::string step, std::string unit)
    : step_(std::move(step)),
      unit_(std::move(unit)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::update(std::int64_t done, std::int64_t total) {
  if (log_options().quiet || total <= 0 || !is_first_rank()) return;
  const auto now = Clock::now();
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (now - last_ < pause) return;
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const double rate = static_cast<double>(done) / seconds;
  const std::string left = rate > 0 ? short_time(static_cast<double>(total - done) / rate) : "unknown";
  if (terminal_) {
    constexpr int width = 30;
    const int full = static_cast<int>(share * width);
    // Not fmt::print(), which throws where the terminal has gone.
    const std::string line =
        fmt::format("\r\033[K{} [{}{}] {:3.0f} %  {} {}/s  {} left", step_, std::string(full, '#'),
                    std::string(width - full, '.'), share * 100, short_count(rate), unit_, left);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
    shown_ = true;
  } else {
    log_note(fmt::format("{}: {:.1f} %, {} of {} {}, {} {}/s, {} left", step_, share * 100,
                         short_count(static_cast<double>(done)), short_count(static_cast<double>(total)),
                         unit_, short_count(rate), unit_, left));
  }
}

std::string short_count(double value) {
  if (std::abs(value) < 1e4) return fmt::format("{:.0f}", value);
  for (const auto& [size, name] : {std::pair{1e12, "T"}, std::pair{1e9, "G"}, std::pair{1e6, "M"}}) {
    if (std::abs(value) >= size) return fmt::format("{:.4g} {}", value / size, name);
  }
  return fmt::format("{:.4g} k", value / 1e3);
}

std::string short_time(double seconds) {
  if (std::abs(seconds) < 1e-9) return "0 us";  // what rounding left of a difference
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  if (!(seconds < 1e9)) return fmt::format("{:.3g} s", seconds);  // beyond 30 years hours tell nothing
  const auto whole = static_cast<long long>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace shardwise::program
