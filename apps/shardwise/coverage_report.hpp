#pragma once
// The report of `shardwise coverage`: numbers, JSON (cli.md's keys) and the table for people.

#include <optional>
#include <string>
#include <vector>

#include "cell_census.hpp"
#include "coverage_request.hpp"
#include "report_file.hpp"
#include "shardwise/radio/coverage.hpp"

namespace shardwise::program {

struct Verification {
  bool ran = false, equal = false;
  double max_relative = 0;  ///< largest |a - b| / max(a, b) over the cells
};

struct SceneCounts {
  std::int64_t triangles = 0, shapes = 0, materials = 0, defects = 0;
};

struct CoverageReport {
  const CoverageRequest* request = nullptr;
  CoverageGrid grid;
  SceneCounts scene;
  const CoverageResult* result = nullptr;
  double seconds = 0;
  CellCensus census;
  Verification verification;
  std::vector<std::string> warnings;

  // From the result, by summarize():
  std::int64_t reached = 0, under_16 = 0;
  double covered_fraction = 0;
  std::optional<double> max_gain_db, median_gain_db;  ///< over covered cells
  std::string digest, stderr_digest;                  ///< the second is empty with one pass
};

/// BLAKE3 of the array's bytes, hex.
std::string digest_of(const std::vector<double>& values);

/// Fills what follows from the result.
void summarize(CoverageReport& report);

/// What a user should know of the result: cells with few crossings, a transmitter that reaches little.
std::vector<std::string> result_warnings(const CoverageReport& report);

Json coverage_json(const CoverageReport& report);
std::string coverage_text(const CoverageReport& report);

}  // namespace shardwise::program
