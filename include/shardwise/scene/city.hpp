#pragma once
// A procedural city: streets, blocks of buildings, radio materials. The same options give the same bytes
// everywhere.

#include <atomic>
#include <cstdint>
#include <filesystem>

namespace shardwise {

struct CityOptions {
  int blocks_x = 8;  ///< 1 to 200
  int blocks_y = 8;  ///< 1 to 200
  std::uint64_t seed = 1;
  double block_m = 76;   ///< side of a block, 40 to 400 m
  double street_m = 14;  ///< width of a street, 4 to 100 m
  double avenue_m = 28;  ///< width of every fourth street and of the middle ones, at least street_m, to 200 m
  const std::atomic<bool>* cancel = nullptr;  ///< where true, write_city() throws an interrupted Error
};

struct CityReport {
  std::filesystem::path scene_file;  ///< DIRECTORY/city.xml
  std::int64_t buildings = 0;
  std::int64_t shapes = 0;  ///< PLY files: buildings, roofs of another material, two of ground
  std::int64_t triangles = 0;
  double highest_m = 0;
  double size_x_m = 0, size_y_m = 0;  ///< centred on the origin; the ground is z = 0
};

/// Writes `directory`/city.xml (Mitsuba, itu-radio-material) and one binary PLY a building to
/// `directory`/meshes, the XML last. Makes the directory where its parent is there; replaces files of these
/// names, touches no other. Throws a usage error where an option is out of range or the directory cannot be
/// made.
CityReport write_city(const std::filesystem::path& directory, const CityOptions& options = {});

}  // namespace shardwise
