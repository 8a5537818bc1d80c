#pragma once
// What a child process is started with, made before the fork: after it only system calls are safe.

#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace shardwise {

/// This process's environment, with these variables added or replaced, as NAME=VALUE.
inline std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    const std::string line = *entry;
    bool replaced = false;
    for (const auto& [name, value] : added) replaced = replaced || line.starts_with(name + "=");
    if (!replaced) result.push_back(line);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

/// As exec wants them: null at the end. They point into `texts`.
inline std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace shardwise
