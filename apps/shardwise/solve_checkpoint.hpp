#pragma once
// A state of `solve heat` on disk, to go on from.
//
// A sealed file (sealed_file.hpp) with magic "SWSTATE" and a zero byte, schema 1. Header: schema, parameters,
// step, time, cells. Payload: u, f64 [cells], the first dimension fastest. Values of a float run are written
// as doubles, which changes no bit of them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report_file.hpp"

namespace shardwise::program {

struct SolveState {
  Json parameters;  ///< what decides the bits of later steps
  std::int64_t step = 0;
  double time = 0;
  std::vector<double> u;
};

std::string state_bytes(const SolveState& state);
/// Throws a data error that names the file and what is wrong with it: not there, no state, cut short,
/// damaged, a schema of another version.
SolveState read_state(const std::string& path);
SolveState parse_state(std::string_view bytes, const std::string& path);

}  // namespace shardwise::program
