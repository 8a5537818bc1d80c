#pragma once

#include <string>
#include <vector>

namespace shardwise::program {

/// The candidate nearest to `word` (edit distance with swaps, at most a third of the word's length, two at least);
/// empty where none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace shardwise::program
