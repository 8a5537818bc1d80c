#pragma once
// A part of a coverage run on disk: exact sums of some lanes, and all that decides them. `--partial`,
// `--checkpoint` and `--resume` share this form, and `merge` joins it.
//
// A sealed file (sealed_file.hpp) with magic "SWPART" and two zero bytes, schema 1. Header: schema,
// parameters, context, sums. Payload:
//
//   open cells: u8 [cells]
//   outlines: f64 [n, 4], x0 y0 x1 y1
//   sums: [grids, cells] of i64 [4]: three digits and the crossings (exact_sum.hpp)
//
// Grid = pass x grids_per_pass + transmitter, from first_grid on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "outline.hpp"
#include "report_file.hpp"
#include "shardwise/radio/coverage_sums.hpp"

namespace shardwise::program {

struct PartialFile {
  Json parameters;                    ///< what decides the bits of the sums: equal in all parts of one run
  Json context;                       ///< what reports and pictures say besides
  std::vector<std::uint8_t> is_open;  ///< [cells]
  std::vector<Segment> outlines;
  CoverageSums sums;
  double seconds = 0;  ///< that the lanes took
};

std::string partial_bytes(const PartialFile& partial);

/// Throws a data error that names the file and what is wrong with it: not there, not a part of a run, cut
/// short, damaged, a schema of another version.
PartialFile read_partial(const std::string& path);
/// The same from memory; `path` is for messages.
PartialFile parse_partial(std::string_view bytes, const std::string& path);

/// Throws a data error that names the first parameter that differs, with both values, unless there is none.
/// `here` and `there` say whose the values are.
void check_same_run(const Json& mine, const std::string& here, const Json& other, const std::string& there);

/// "0 to 1200, 3000 to 4000": at most five, and how many more.
std::string windows_text(const std::vector<Window>& windows);

}  // namespace shardwise::program
