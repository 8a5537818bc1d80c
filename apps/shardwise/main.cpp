// The program: its command line, errors as one line and an exit code, signals.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "child_keeper.hpp"
#include "command.hpp"
#include "job_worker.hpp"
#include "log.hpp"
#include "ranks.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::program;

int report(ErrorClass error_class, const std::string& text, int code) {
  if (error_class == ErrorClass::interrupted && code > 128) {
    log_error(stop_text(code - 128));
    return code;
  }
  log_error(text);
  log_debug(std::string("class of the error: ") + to_string(error_class));
  return code;
}

int code_of(ErrorClass error_class) {
  const bool stopped = error_class == ErrorClass::interrupted && caught_signal() != 0;
  return stopped ? 128 + caught_signal() : exit_code(error_class);
}

/// Has all ranks end with what this one met. By itself a process is the only rank.
[[noreturn]] void fail(const Error& error) {
  // Not what went wrong, but its consequence.
  if (error.error_class() == ErrorClass::interrupted && stopped_for_other_rank() && caught_signal() == 0)
    ranks().fail(DependencyError(error.what()));
  ranks().fail(error, code_of(error.error_class()));
}

/// What the standard library had to say, in our words.
Error error_of(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return Error(ErrorClass::io, "'" + file->path1().string() + "' cannot be used (" +
                                     file->code().message() + "); check what is there and the space left");
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  if (system && system->code() == std::errc::resource_unavailable_try_again)
    return Error(ErrorClass::memory,
                 "no more threads can be started (" + system->code().message() +
                     "); raise the limit of processes ('ulimit -u'), or use fewer devices and threads");
  return Error(ErrorClass::internal, std::string("unexpected (") + error.what() + "); please report this");
}

int run(int argc, char** argv) {
  try {
    std::int64_t code = 0;
    try {
      code = run_command_line(argc, argv);
    } catch (const Error& error) {
      fail(error);
    } catch (const std::bad_alloc&) {
      fail(Error(ErrorClass::memory,
                 "out of memory on the host; use fewer or larger cells, or a smaller scene"));
    } catch (const std::exception& error) {
      fail(error_of(error));
    }
    ranks().max(std::span(&code, 1), "the end of the command");
    return static_cast<int>(code);
  } catch (const RankError& error) {
    return is_first_rank() ? report(error.error_class(), error.what(), error.exit_code()) : error.exit_code();
  }
}

/// Where a standard stream is closed, the next file to be opened would get its number, and what is said its
/// bytes.
void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0) (void)!open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], kKeeperWord) == 0) return run_keeper();
  open_standard_streams();
  // Before anything is made of the environment: a rank's workers are no ranks.
  if (is_job_worker(argc, argv)) return be_job_worker();
  install_signal_handlers();
  try {
    join_ranks();
  } catch (const Error& error) {
    // Every process finds this by itself, and one says it.
    const auto launch = detect_launch([](const char* name) { return std::getenv(name); });
    const int code = exit_code(error.error_class());
    return launch && launch->rank > 0 ? code : report(error.error_class(), error.what(), code);
  }
  const int code = run(argc, argv);
  leave_ranks();
  return code;
}
