#include "job_folder.hpp"

#include <fmt/core.h>

#include <system_error>

#include "log.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

}  // namespace

void check_job_place(const fs::path& place, const std::string& id) {
  std::error_code ignored;
  const fs::file_status found = fs::symlink_status(place, ignored);
  if (!fs::exists(found) || fs::is_directory(found)) return;
  throw_usage(
      fmt::format("'{}' is a {}, where job '{}' keeps its results; remove or rename it, or choose another id",
                  place.string(), fs::is_symlink(found) ? "link" : "file", id));
}

bool make_job_folder(const fs::path& place, const std::string& id) {
  std::error_code error;
  const fs::file_status found = fs::symlink_status(place, error);
  if (fs::is_directory(found)) return true;
  const bool replaced = fs::exists(found);
  if (replaced) fs::remove(place, error);
  if (!replaced || !error) fs::create_directories(place, error);
  if (error)
    throw Error(ErrorClass::io,
                fmt::format("job '{}': its folder '{}' cannot be made ({}); check what is there", id,
                            place.string(), error.message()));
  if (replaced)
    log_warning(
        fmt::format("job '{}' replaced its folder '{}' by a {}, which is removed; what it had written in the "
                    "folder is lost",
                    id, place.string(), fs::is_symlink(found) ? "link" : "file"));
  return false;
}

void prepare_job_folder(const fs::path& place, const std::string& id) {
  make_job_folder(place, id);
  std::error_code ignored;  // A folder with something in it stays, and the command does not start.
  for (const char* name : {"stdout.part", "stderr.part"}) fs::remove(place / name, ignored);
}

void keep_job_output(const fs::path& place, const std::string& id) {
  std::error_code error;
  const bool was_replaced = fs::exists(fs::symlink_status(place, error));
  if (!make_job_folder(place, id)) {
    if (!was_replaced)
      log_warning(fmt::format("job '{}' removed its folder '{}'; what it had written there is lost", id,
                              place.string()));
    return;
  }
  for (const std::string name : {"stdout", "stderr"}) {
    const fs::path part = place / (name + ".part");
    if (fs::is_regular_file(fs::symlink_status(part, error)))
      fs::rename(part, place / name, error);
    else if (!error)
      error = std::make_error_code(std::errc::invalid_argument);
    if (error)
      log_warning(
          fmt::format("job '{}' removed or replaced its '{}', or what is in its way ({}); what it said "
                      "there is lost",
                      id, part.string(), error.message()));
  }
}

void drop_job_output(const fs::path& place) noexcept {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(place, ignored))) return;
  for (const char* name : {"stdout", "stderr", "stdout.part", "stderr.part"}) {
    const fs::path file = place / name;
    if (!fs::is_directory(fs::symlink_status(file, ignored))) fs::remove(file, ignored);
  }
}

}  // namespace shardwise::program
