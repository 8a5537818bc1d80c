#include "sweep_costs.hpp"

#include <utility>

#include "report_file.hpp"
#include "run_folder.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kSchema = 1;

}  // namespace

CostBook::CostBook(fs::path file) : file_(std::move(file)) {
  const Json json = Json::parse(read_if_there(file_).value_or(""), nullptr, false);
  if (!json.is_object() || !json.contains("schema") || json["schema"] != kSchema || !json.contains("ns"))
    return;
  for (const auto& [scene, ns] : json["ns"].items())
    if (ns.is_number() && ns.get<double>() > 0) ns_[scene] = ns.get<double>();
}

double CostBook::ns(const std::string& scene) const {
  if (const auto found = ns_.find(scene); found != ns_.end()) return found->second;
  double sum = 0;
  for (const auto& [name, value] : ns_) sum += value;
  return ns_.empty() ? 1 : sum / static_cast<double>(ns_.size());
}

void CostBook::learn(const std::string& scene, double seen) {
  double& value = ns_[scene];
  value = value > 0 ? (value + seen) / 2 : seen;
}

void CostBook::write() const {
  Json ns = Json::object();
  for (const auto& [scene, value] : ns_) ns[scene] = value;
  write_by_rename(file_, json_text({{"schema", kSchema}, {"ns", ns}}));
}

std::string digest_of_files(const SweepScene& scene) {
  Blake3 hasher;
  for (const std::string& digest : scene.file_digests) hasher.update(digest);
  return hasher.hex().substr(0, 16);
}

}  // namespace shardwise::program
