#include "mitsuba_materials.hpp"

#include <fmt/format.h>

#include "scene_materials.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::mitsuba {
namespace {

constexpr const char* kItuPlugin = "itu-radio-material";
constexpr const char* kConstantsPlugin = "radio-material";

/// The first radio plugin in a bsdf and what it wraps (twosided, mask, ...); empty where there is none.
pugi::xml_node find_radio_plugin(pugi::xml_node node, const Attributes& attributes) {
  const std::string type = attributes.text(node, "type");
  if (type == kItuPlugin || type == kConstantsPlugin) return node;
  for (const pugi::xml_node child : node.children("bsdf")) {
    if (const pugi::xml_node found = find_radio_plugin(child, attributes)) return found;
  }
  return {};
}

/// The id of a bsdf, or of the first one it wraps that has one.
std::string find_id(pugi::xml_node node, const Attributes& attributes) {
  std::string id = attributes.text(node, "id");
  for (pugi::xml_node child = node.child("bsdf"); id.empty() && child; child = child.next_sibling("bsdf")) {
    id = find_id(child, attributes);
  }
  return id;
}

/// The keys of a radio plugin into `material`; those without a use yet are kept in material.unused.
void read_keys(pugi::xml_node plugin, const Attributes& attributes, bool constants, Material& material,
               std::string& type, bool& has_permittivity) {
  for (const pugi::xml_node child : plugin.children()) {
    if (child.type() != pugi::node_element) continue;
    const std::string key = attributes.text(child, "name");
    double* target = nullptr;
    if (key == "thickness") target = &material.thickness;
    if (key == "gain") target = &material.gain;
    if (constants && (key == "relative_permittivity" || key == "permittivity" || key == "eta_r")) {
      target = &material.eta_r;
      has_permittivity = true;
    }
    if (constants && (key == "conductivity" || key == "sigma")) target = &material.sigma;
    if (constants && (key == "relative_permeability" || key == "mu_r")) target = &material.mu_r;
    if (target) {
      if (!attributes.has(child, "value"))
        attributes.fail(child, fmt::format("'{}' has no attribute value", key));
      *target = attributes.number(child, "value", 0);
    } else if (!constants && key == "type") {
      type = attributes.text(child, "value");
    } else {
      material.unused.emplace_back(key.empty() ? child.name() : key, attributes.text(child, "value"));
    }
  }
}

}  // namespace

ResolvedBsdf resolve_bsdf(pugi::xml_node node, const Attributes& attributes, const SceneReadOptions& options,
                          std::vector<std::string>* notes) {
  ResolvedBsdf result;
  result.name = find_id(node, attributes);
  std::string given_note;
  if ((result.material = given_material(result.name, options, &result.given_key, &given_note))) {
    if (notes && !given_note.empty()) notes->push_back(given_note);
    return result;
  }
  const pugi::xml_node plugin = find_radio_plugin(node, attributes);
  const bool constants = plugin && attributes.text(plugin, "type") == kConstantsPlugin;
  Material material;
  std::string type;
  bool has_permittivity = false;
  if (plugin) read_keys(plugin, attributes, constants, material, type, has_permittivity);

  if (constants) {
    if (!has_permittivity) {
      attributes.fail(plugin, fmt::format("radio-material '{}' has no relative_permittivity", result.name));
    }
    if (result.name.empty()) result.name = kConstantsPlugin;
  } else {
    const std::string& spelled = type.empty() ? result.name : type;
    std::string note;
    const auto itu_class = itu_class_from_name(spelled, &note);
    if (!itu_class) {
      const std::string kind = attributes.text(plugin ? plugin : node, "type");
      result.problem = !type.empty()         ? fmt::format("{} of unknown type '{}'", kind, type)
                       : result.name.empty() ? fmt::format("bsdf '{}' without an id that names a class", kind)
                                             : fmt::format("bsdf '{}', its id names no class", kind);
      result.problem += fmt::format(", line {}", attributes.line_of(node));
      result.nearest = nearest_itu_class(spelled);
      return result;
    }
    if (notes && !note.empty()) notes->push_back(note);
    material.kind = Material::Kind::itu_class;
    material.itu_class = *itu_class;
    if (result.name.empty()) result.name = *itu_class;
  }
  material.name = result.name;
  try {
    validate_material(material, "bsdf");
  } catch (const Error& error) {
    attributes.fail(plugin ? plugin : node, error.what());
  }
  if (notes) {
    for (const auto& [key, value] : material.unused) {
      notes->push_back(
          fmt::format("material '{}': '{}' = '{}' is kept, but not yet used", material.name, key, value));
    }
  }
  result.material = std::move(material);
  return result;
}

}  // namespace shardwise::mitsuba
