#include "bench/meshes.hpp"

#include <stdlib.h>

#include <filesystem>
#include <random>

#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise::bench {

SceneModel cloud(int count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> place(-1, 1), offset(-0.005f, 0.005f);
  Mesh mesh;
  mesh.name = "cloud";
  for (int i = 0; i < count; ++i) {
    const Vec3f middle{place(random), place(random), place(random)};
    const auto first = static_cast<std::int32_t>(mesh.vertices.size());
    for (int corner = 0; corner < 3; ++corner)
      mesh.vertices.push_back(middle + Vec3f{offset(random), offset(random), offset(random)});
    mesh.faces.push_back({first, first + 1, first + 2});
  }
  SceneModel model;
  model.add_mesh(std::move(mesh));
  return model;
}

SceneModel light_plane() {
  Mesh mesh;
  mesh.name = "plane";
  constexpr int columns = 16, rows = 12;
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < columns; ++x)
      mesh.vertices.push_back({-1 + 2 * static_cast<float>(x) / (columns - 1),
                               -1 + 2 * static_cast<float>(y) / (rows - 1), 0.1f});
  for (int y = 0; y + 1 < rows; ++y)
    for (int x = 0; x + 1 < columns; ++x) {
      const std::int32_t i = y * columns + x;
      mesh.faces.push_back({i, i + 1, i + columns});
      mesh.faces.push_back({i + 1, i + columns + 1, i + columns});
    }
  SceneModel model;
  model.add_mesh(std::move(mesh));
  return model;
}

SceneModel scene_asked_for(const Settings& settings) {
  if (!settings.scene.empty()) return read_scene(settings.scene);
  std::string folder = (std::filesystem::temp_directory_path() / "shardwise-city-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    throw Error(ErrorClass::io, "bench: no temporary folder can be made; set TMPDIR");
  SceneModel model = read_scene(write_city(folder).scene_file);
  std::filesystem::remove_all(folder);
  return model;
}

}  // namespace shardwise::bench
