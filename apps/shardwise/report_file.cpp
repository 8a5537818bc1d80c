#include "report_file.hpp"

#include <cmath>

#include "version.hpp"

namespace shardwise::program {

std::string json_text(const Json& report) {
  // Names that are not UTF-8 (a file name may hold any bytes) are mended, not thrown over.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json number_or_null(double number) {
  return std::isfinite(number) ? Json(number) : Json(nullptr);
}

void stage_json(OutputSet& outputs, const std::string& path, const Json& report) {
  if (!path.empty() && path != "-") outputs.stage(path, json_text(report));
}

Json build_json() {
  const BuildFacts& facts = build_facts();
  Json parts = Json::object();
  for (const auto& [part, built] : facts.parts) parts[part] = built;
  return {{"version", facts.version},
          {"commit", facts.commit},
          {"build_type", facts.build_type},
          {"compiler", facts.compiler},
          {"cuda_compiler", facts.cuda_compiler},
          {"cuda_architectures", facts.cuda_architectures},
          {"sanitizer", facts.sanitizer},
          {"parts", parts}};
}

}  // namespace shardwise::program
