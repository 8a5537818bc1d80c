#pragma once
// Helpers of the scene tests: errors by class and words, random meshes, bit equality, folders that go away.

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/mesh.hpp"

namespace shardwise::test {

/// The call must throw an Error of that class whose text holds every fragment.
inline void expect_error(ErrorClass expected, std::initializer_list<std::string> fragments,
                         const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_STREQ(to_string(error.error_class()), to_string(expected)) << error.what();
    for (const std::string& fragment : fragments) {
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos)
          << "'" << fragment << "' is not in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline void expect_same_mesh(const Mesh& a, const Mesh& b) {
  EXPECT_TRUE(same_bits(a.vertices, b.vertices));
  EXPECT_TRUE(same_bits(a.faces, b.faces));
  EXPECT_TRUE(same_bits(a.uv, b.uv));
  EXPECT_TRUE(same_bits(a.face_uv, b.face_uv));
  EXPECT_TRUE(same_bits(a.vertex_normals, b.vertex_normals));
}

/// Any finite float with a moderate exponent, -0 and denormals among them.
inline float random_float(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return -0.0f;
    case 1:
      return 1e-42f * static_cast<float>(random() % 100);
    default:
      return std::ldexp(static_cast<float>(static_cast<std::int64_t>(random() % 33554431) - 16777215),
                        static_cast<int>(random() % 24) - 30);
  }
}

inline Mesh random_mesh(std::mt19937_64& random, bool normals, bool uv) {
  Mesh mesh;
  mesh.name = "random";
  const auto vertices = 3 + random() % 20, faces = random() % 30;
  for (std::size_t i = 0; i < vertices; ++i) {
    mesh.vertices.push_back({random_float(random), random_float(random), random_float(random)});
    if (normals)
      mesh.vertex_normals.push_back({random_float(random), random_float(random), random_float(random)});
    if (uv && faces > 0) mesh.uv.push_back({random_float(random), random_float(random)});
  }
  for (std::size_t i = 0; i < faces; ++i) {
    Face face;
    for (auto& index : face) index = static_cast<std::int32_t>(random() % vertices);
    mesh.faces.push_back(face);
  }
  if (uv) mesh.face_uv = mesh.faces;
  return mesh;
}

/// Two triangles over the unit square at height z.
inline Mesh square(const std::string& name, float z = 0) {
  Mesh mesh;
  mesh.name = name;
  mesh.vertices = {{0, 0, z}, {1, 0, z}, {1, 1, z}, {0, 1, z}};
  mesh.faces = {{0, 1, 2}, {0, 2, 3}};
  return mesh;
}

/// An empty folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() /
            ("shardwise-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace shardwise::test
