#include "scene_materials.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

/// A TOML basic string.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace

void Problems::add(const std::string& what, const std::string& mend, const std::string& shape) {
  const auto found = std::find_if(problems_.begin(), problems_.end(),
                                  [&](const Problem& other) { return other.what == what; });
  if (found == problems_.end()) {
    problems_.push_back({what, mend, {shape}});
  } else {
    found->shapes.push_back(shape);
  }
}

void Problems::add_unknown_material(const std::string& what, const std::string& name,
                                    const std::string& nearest, const std::string& shape) {
  add(fmt::format("{}; nearest class: {}", what, nearest),
      name.empty() ? "" : fmt::format("{} = \"{}\"", quoted(name), nearest), shape);
}

void Problems::throw_if_any(const std::string& label) const {
  if (problems_.empty()) return;
  std::string text = fmt::format("scene '{}' uses what is not known:", label);
  std::vector<std::string> mends;
  for (const Problem& problem : problems_) {
    text += fmt::format("\n  {}: ", problem.what);
    constexpr std::size_t most = 8;
    for (std::size_t i = 0; i < std::min(problem.shapes.size(), most); ++i) {
      text += fmt::format("{}'{}'", i > 0 ? ", " : "", problem.shapes[i]);
    }
    if (problem.shapes.size() > most) text += fmt::format(" and {} more", problem.shapes.size() - most);
    // Two problems may ask for one name; TOML may say it once.
    if (!problem.mend.empty() && std::find(mends.begin(), mends.end(), problem.mend) == mends.end()) {
      mends.push_back(problem.mend);
    }
  }
  if (!mends.empty()) {
    text += "\n  materials are mended by --materials FILE.toml with (correct the classes):\n    schema = 1";
    for (const std::string& mend : mends) text += "\n    " + mend;
  }
  throw_data(text);
}

std::optional<Material> given_material(const std::string& name, const SceneReadOptions& options,
                                       std::string* key, std::string* note) {
  if (name.empty()) return std::nullopt;
  auto found = options.materials.find(name);
  if (found == options.materials.end()) {
    found = options.materials.find(std::string(without_numeric_suffix(name)));
    if (found == options.materials.end()) return std::nullopt;
    *note = fmt::format("material '{}' is taken as '{}' of the materials given", name, found->first);
  }
  *key = found->first;
  Material material = found->second;
  material.name = name;
  return material;
}

std::int32_t NamedMaterials::index_of(const std::string& name, const std::string& shape) {
  if (name.empty()) {
    if (!options_.material_override) {
      problems_.add("shapes without a material (--material CLASS gives them one)", "", shape);
      return -1;
    }
    const std::string& itu_class = *options_.material_override;
    // The file may use the class as a name to which --materials gives another meaning.
    const bool taken = options_.materials.contains(itu_class);
    return scene_.add_material(make_itu_material(taken ? itu_class + " (--material)" : itu_class, itu_class));
  }
  const auto known = known_.find(name);
  if (known != known_.end() && known->second >= 0) return known->second;
  std::string key, note;
  std::optional<Material> material = given_material(name, options_, &key, &note);
  if (material) {
    used_.insert(key);
  } else if (const auto itu_class = itu_class_from_name(name, &note)) {
    material = make_itu_material(name, *itu_class);
  } else {
    problems_.add_unknown_material(fmt::format("material '{}', its name is no class", name), name,
                                   nearest_itu_class(name), shape);
    return -1;
  }
  if (notes_ && !note.empty()) notes_->push_back(note);
  return known_[name] = scene_.add_material(*material);
}

void NamedMaterials::finish(const std::string& label) const {
  problems_.throw_if_any(label);
  if (!notes_) return;
  for (const auto& [name, material] : options_.materials) {
    if (!used_.contains(name)) {
      notes_->push_back(fmt::format("no shape has the material '{}' that was given", name));
    }
  }
}

}  // namespace shardwise
