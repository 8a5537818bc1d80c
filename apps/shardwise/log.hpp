#pragma once
// What the program says on standard error, and in the log file. Standard output belongs to the report.

#include <string>

namespace shardwise::program {

struct LogOptions {
  bool verbose = false;
  bool quiet = false;  ///< no progress and no notes; warnings and errors stay
  std::string file;    ///< gets everything, with times
};

/// Opens the log. Throws a usage error where the file cannot be written.
void open_log(const LogOptions& options);
const LogOptions& log_options();

void log_debug(const std::string& text);    ///< with --verbose, and in the file
void log_note(const std::string& text);     ///< unless --quiet, and in the file
void log_warning(const std::string& text);  ///< `shardwise: warning: ...`
void log_error(const std::string& text);    ///< `shardwise: error: ...`

}  // namespace shardwise::program
