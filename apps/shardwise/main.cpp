// The program: its command line, errors as one line and an exit code, signals.

#include <CLI/CLI.hpp>
#include <exception>
#include <new>

#include "command.hpp"
#include "log.hpp"
#include "shardwise/runtime/error.hpp"
#include "signals.hpp"

namespace {

using namespace shardwise;
using namespace shardwise::program;

int report(ErrorClass error_class, const std::string& text) {
  if (error_class == ErrorClass::interrupted && caught_signal() != 0) {
    const int number = caught_signal();
    const char* const name = number == 2 ? "SIGINT" : number == 15 ? "SIGTERM" : "SIGHUP";
    log_error(std::string("stopped by ") + name + "; " + stop_remark());
    return 128 + number;
  }
  log_error(text);
  log_debug(std::string("class of the error: ") + to_string(error_class));
  return exit_code(error_class);
}

}  // namespace

int main(int argc, char** argv) {
  install_signal_handlers();
  try {
    return run_command_line(argc, argv);
  } catch (const Error& error) {
    return report(error.error_class(), error.what());
  } catch (const std::bad_alloc&) {
    return report(ErrorClass::memory,
                  "out of memory on the host; use fewer or larger cells, or a smaller scene");
  } catch (const std::exception& error) {
    return report(ErrorClass::internal, std::string("unexpected (") + error.what() + "); please report this");
  }
}
