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

/// How --target-error went.
struct TargetError {
  double asked_db = 0;
  std::optional<double> reached_db;  ///< none: no cell has 16 crossings
  bool met = false;
};

struct CoverageReport {
  std::string command = "coverage";
  const CoverageRequest* request = nullptr;
  CoverageGrid grid;
  SceneCounts scene;
  const CoverageResult* result = nullptr;
  double seconds = 0;
  double virtual_s = 0;  ///< on simulated devices' clock, where all of it was one call
  CellCensus census;
  Verification verification;
  std::vector<std::int64_t> open_reached;  ///< [transmitters] open cells with a crossing; empty: not known
  std::optional<TargetError> target;
  std::int64_t total_lanes = 0;  ///< of the whole run, where --lanes asked for a window
  std::vector<std::string> warnings;
  Json ranks;  ///< one entry a rank, where there are several (gather_rank_reports)

  // From the result, by summarize():
  std::int64_t reached = 0, under_16 = 0;
  double covered_fraction = 0;
  std::optional<double> max_gain_db, median_gain_db;  ///< over covered cells
  std::string digest, stderr_digest;                  ///< the second is empty with one pass
};

/// One entry a device.
Json devices_json(const DispatchReport& dispatch);

/// BLAKE3 of the array's bytes, hex.
std::string digest_of(const std::vector<double>& values);

/// Fills what follows from the result.
void summarize(CoverageReport& report);

Json coverage_json(const CoverageReport& report);
std::string coverage_text(const CoverageReport& report);

}  // namespace shardwise::program
