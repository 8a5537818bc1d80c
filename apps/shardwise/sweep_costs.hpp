#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "sweep_run.hpp"

namespace shardwise::program {

/// How long a unit of work took on a scene, as earlier runs in the folder found out.
class CostBook {
 public:
  explicit CostBook(std::filesystem::path file);
  /// Nanoseconds of a unit; of an unknown scene the mean of the others, of none 1.
  double ns(const std::string& scene) const;
  void learn(const std::string& scene, double seen);
  void write() const;

 private:
  std::filesystem::path file_;
  std::map<std::string, double> ns_;
};

/// A scene's name in it.
std::string digest_of_files(const SweepScene& scene);

}  // namespace shardwise::program
