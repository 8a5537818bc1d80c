#include "materials_file.hpp"

#include <fmt/core.h>

#include "shardwise/runtime/error.hpp"

#if defined(SHARDWISE_WITH_TOML)

#include <toml++/toml.h>

#include <cstdint>
#include <vector>

#include "scene/file_util.hpp"
#include "shardwise/runtime/parse.hpp"

namespace shardwise::program {
namespace {

constexpr std::int64_t kSchema = 1;

std::string place(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

double number_of(const std::string& path, const std::string& key, const toml::node& node) {
  if (const auto number = node.value<double>(); number && (node.is_floating_point() || node.is_integer())) {
    return *number;
  }
  throw_data(fmt::format("{}: '{}' is not a number; write one (inf for a perfect conductor's sigma)",
                         place(path, node), key));
}

Material from_class(const std::string& path, const std::string& name, const toml::node& node) {
  try {
    return make_itu_material(name, *node.value<std::string>());
  } catch (const Error& error) {
    throw_data(fmt::format("{}: {}", place(path, node), error.what()));
  }
}

Material from_table(const std::string& path, const std::string& name, const toml::table& table) {
  static const std::vector<std::string> keys{"class", "eta_r", "sigma", "mu_r", "thickness", "gain"};
  Material material;
  material.name = name;
  const toml::node* itu = table.get("class");
  if (itu) {
    if (!itu->is_string())
      throw_data(fmt::format("{}: 'class' is not a text; name an ITU class", place(path, *itu)));
    material = from_class(path, name, *itu);
  }
  for (const auto& [key_view, node] : table) {
    const std::string key(key_view.str());
    if (key == "class") continue;
    double* const target = key == "thickness" ? &material.thickness
                           : key == "gain"    ? &material.gain
                           : itu              ? nullptr
                           : key == "eta_r"   ? &material.eta_r
                           : key == "sigma"   ? &material.sigma
                           : key == "mu_r"    ? &material.mu_r
                                              : nullptr;
    if (!target) {
      const std::string near = nearest_word(key, keys);
      throw_data(fmt::format("{}: material '{}' has no key '{}'{}; {}", place(path, node), name, key,
                             itu ? " beside a class" : "",
                             near.empty() || near == key ? "take it out" : "did you mean '" + near + "'?"));
    }
    *target = number_of(path, key, node);
  }
  try {
    validate_material(material, "--materials");
  } catch (const Error& error) {
    throw_data(fmt::format("{}: {}", place(path, table), error.what()));
  }
  return material;
}

}  // namespace

std::map<std::string, Material> read_materials_file(const std::string& path) {
  return parse_materials(read_whole_file(path, "--materials file"), path);
}

std::map<std::string, Material> parse_materials(std::string_view text, const std::string& path) {
  toml::table file;
  try {
    file = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw_data(fmt::format("--materials: {}:{}: {}; mend the TOML", path, error.source().begin.line,
                           error.description()));
  }
  std::map<std::string, Material> materials;
  for (const auto& [key, node] : file) {
    const std::string name(key.str());
    if (name == "schema") {
      if (node.value<std::int64_t>() != kSchema || !node.is_integer()) {
        throw_data(fmt::format("{}: schema must be {}, which this build reads", place(path, node), kSchema));
      }
      continue;
    }
    if (node.is_string()) {
      materials[name] = from_class(path, name, node);
    } else if (const toml::table* table = node.as_table()) {
      materials[name] = from_table(path, name, *table);
    } else {
      throw_data(fmt::format("{}: material '{}' is neither a class nor a table; write {} = \"concrete\"",
                             place(path, node), name, name));
    }
  }
  return materials;
}

}  // namespace shardwise::program

#else

namespace shardwise::program {

std::map<std::string, Material> parse_materials(std::string_view, const std::string& path) {
  return read_materials_file(path);
}

std::map<std::string, Material> read_materials_file(const std::string& path) {
  throw_usage(
      fmt::format("--materials '{}': this build cannot read TOML; install libtomlplusplus-dev and configure "
                  "again",
                  path));
}

}  // namespace shardwise::program

#endif
