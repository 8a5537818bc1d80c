#include "job_record.hpp"

#include <cstdint>

#include "run_folder.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kSchema = 1;

}  // namespace

Json json_of(const BatchJob& job, const JobRecord& record) {
  return {{"schema", kSchema},
          {"id", job.id},
          {"digest", job.digest},
          {"status", record.status},
          {"device", record.device},
          {"exit_code", record.exit_code},
          {"attempts", record.attempts},
          {"queued_s", record.queued_s},
          {"run_s", record.run_s},
          {"ended", record.ended},
          {"error", record.error},
          {"host", record.host},
          {"pid", record.pid}};
}

std::optional<JobRecord> read_record(const fs::path& folder, const BatchJob& job) {
  const auto text = read_if_there(folder / job.id / "result.json");
  if (!text) return std::nullopt;
  try {
    const Json json = Json::parse(*text);
    if (json.at("schema") != kSchema || json.at("digest") != job.digest) return std::nullopt;
    JobRecord record;
    record.status = json.at("status");
    record.device = json.at("device");
    record.exit_code = json.at("exit_code");
    record.attempts = json.at("attempts");
    record.queued_s = json.at("queued_s");
    record.run_s = json.at("run_s");
    record.ended = json.at("ended");
    record.error = json.at("error");
    // Not in folders that an earlier version began.
    record.host = json.value("host", "");
    record.pid = json.value("pid", 0L);
    return record;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace shardwise::program
