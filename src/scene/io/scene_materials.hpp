#pragma once
// Material names of a scene file to the scene's material table, and what is unknown, all at once.

#include <set>
#include <string>
#include <vector>

#include "shardwise/scene/scene_io.hpp"

namespace shardwise {

/// What a scene uses and the reader does not know, with the shapes it stands on. Problems are collected, so
/// that a user mends his file once.
class Problems {
 public:
  /// `mend`: a line of the TOML file that would help; empty where none does.
  void add(const std::string& what, const std::string& mend, const std::string& shape);
  /// `name` as material of the shape, and the class it may have meant.
  void add_unknown_material(const std::string& what, const std::string& name, const std::string& nearest,
                            const std::string& shape);
  bool empty() const { return problems_.empty(); }
  /// One data error with all of them and the TOML that mends the materials; nothing where there are none.
  void throw_if_any(const std::string& label) const;

 private:
  struct Problem {
    std::string what, mend;
    std::vector<std::string> shapes;
  };
  std::vector<Problem> problems_;
};

/// The material that `--materials` gives for a name: of the same spelling, or of the name without a numeric
/// suffix, which `*note` then says. Its name becomes `name`. Empty where there is none; `*key` is the name in
/// the options.
std::optional<Material> given_material(const std::string& name, const SceneReadOptions& options,
                                       std::string* key, std::string* note);

/// The materials of formats that know them by name alone (OBJ, STL, PLY, glTF).
class NamedMaterials {
 public:
  NamedMaterials(SceneModel& scene, const SceneReadOptions& options, std::vector<std::string>* notes)
      : scene_(scene), options_(options), notes_(notes) {}

  /// The index of a material in the scene; -1 after noting a problem. An empty name is no material: the class
  /// of --material, or a problem.
  std::int32_t index_of(const std::string& name, const std::string& shape);
  /// Throws what was noted; says which materials given were not used.
  void finish(const std::string& label) const;

 private:
  SceneModel& scene_;
  const SceneReadOptions& options_;
  std::vector<std::string>* notes_;
  std::map<std::string, std::int32_t> known_;
  std::set<std::string> used_;
  Problems problems_;
};

}  // namespace shardwise
