#pragma once

#include <string>
#include <vector>

namespace shardwise::program {

/// Columns padded to their widest entry, two spaces apart; a column whose entries below the first row all
/// start with a digit, a sign or a dash is set flush right. Every row has as many entries as the first, which
/// is the heading.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace shardwise::program
