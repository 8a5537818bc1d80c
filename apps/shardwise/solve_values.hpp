#pragma once
// Values of `shardwise solve` on cells and faces: numbers, formulas and arrays.

#include <string>
#include <vector>

#include "solve_request.hpp"

namespace shardwise::program {

std::vector<std::string> split(const std::string& text, char separator);
/// At commas outside of parentheses, which belong to functions.
std::vector<std::string> split_list(const std::string& text);

/// Of a text that may be empty. Throws usage errors for formulas, data errors for arrays: of another shape
/// (reversed ones are named), with values that are not finite.
CellValues cell_values(const std::string& option, const std::string& text,
                       const std::vector<std::int64_t>& shape);

/// `FACE:KIND=VALUE` texts, into the boundaries of a grid that has its cells and extent.
void set_boundaries(GridSpec& spec, const std::vector<std::string>& texts,
                    std::vector<std::string>& warnings);

}  // namespace shardwise::program
