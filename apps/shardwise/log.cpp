#include "log.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "output_file.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

LogOptions current;
std::shared_ptr<spdlog::logger> file_log;

/// What other ranks have to say is told from the first one's by their number.
void say(const char* prefix, const std::string& text) {
  std::fflush(stdout);
  const std::string whole = is_first_rank() ? fmt::format("{}{}\n", prefix, text)
                                            : fmt::format("{}rank {}: {}\n", prefix, ranks().rank(), text);
  std::fputs(whole.c_str(), stderr);
}

}  // namespace

void open_log(const LogOptions& options) {
  current = options;
  if (options.file.empty() || !is_first_rank()) return;
  check_output(options.file, "--log-file");
  // Not for the commands that jobs start.
  spdlog::file_event_handlers events;
  events.after_open = [](const spdlog::filename_t&, std::FILE* file) {
    fcntl(fileno(file), F_SETFD, FD_CLOEXEC);
  };
  try {
    file_log = std::make_shared<spdlog::logger>(
        "shardwise", std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file, true, events));
  } catch (const spdlog::spdlog_ex& error) {
    throw_usage(
        fmt::format("--log-file: '{}' cannot be written ({}); choose another", options.file, error.what()));
  }
  // A log that cannot be written is told once, on standard error, and the run goes on.
  file_log->set_error_handler([](const std::string& problem) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
      say("shardwise: warning: ",
          fmt::format("--log-file: '{}' cannot be written ({}); the log is incomplete", current.file,
                      problem));
  });
  file_log->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  file_log->set_level(spdlog::level::debug);
  file_log->flush_on(spdlog::level::debug);
}

const LogOptions& log_options() {
  return current;
}

void log_debug(const std::string& text) {
  if (current.verbose) say("shardwise: ", text);
  if (file_log) file_log->debug(text);
}

void log_note(const std::string& text) {
  if (!current.quiet && is_first_rank()) say("shardwise: ", text);
  if (file_log) file_log->info(text);
}

void log_warning(const std::string& text) {
  say("shardwise: warning: ", text);
  if (file_log) file_log->warn(text);
}

void log_error(const std::string& text) {
  say("shardwise: error: ", text);
  if (file_log) file_log->error(text);
}

}  // namespace shardwise::program
