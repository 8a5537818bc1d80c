#pragma once
// PLAN.toml of `shardwise sweep`: coverage runs, by tables whose lists expand as a product.
//
//   [defaults]                       # keys of every run that does not say otherwise
//   scene = "city/city.xml"          # paths are relative to the plan
//   [[run]]
//   tx = ["0,0,10", "5,0,10"]        # two runs; [["0,0,10", "5,0,10"]]: one run of two transmitters
//   frequency = ["1GHz", "3.5GHz"]   # times two

#include <string>
#include <vector>

#include "coverage_request.hpp"
#include "report_file.hpp"

namespace shardwise::program {

struct SweepRun {
  std::string name;  ///< of its folder: the table's name and the values that vary in the table
  int line = 0;      ///< of its table
  CoverageText text;
  CoverageRequest request;  ///< checked, not placed in the scene yet
};

/// Every run, in the order of the tables, the last key of a product fastest. Throws data errors that name
/// file, line and key: what is no TOML, an unknown key (with the nearest), a value that coverage refuses, two
/// runs of one name.
std::vector<SweepRun> read_sweep_plan(const std::string& path);

/// What of a run decides its map, besides files: the same for the same meaning, however it was written
/// ("1GHz", 1e9).
Json canonical_parameters(const SweepRun& run);

}  // namespace shardwise::program
