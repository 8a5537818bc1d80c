#include "table.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace shardwise::program {

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return {};
  const std::size_t columns = rows.front().size();
  std::vector<std::size_t> width(columns, 0);
  std::vector<bool> numeric(columns, true);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string& entry = rows[r].at(c);
      width[c] = std::max(width[c], entry.size());
      const bool number = !entry.empty() && (std::isdigit(static_cast<unsigned char>(entry[0])) != 0 ||
                                             entry[0] == '-' || entry[0] == '+');
      if (r > 0 && !number) numeric[c] = false;
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string padding(width[c] - row[c].size(), ' ');
      line += numeric[c] ? padding + row[c] : row[c] + padding;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace shardwise::program
