#pragma once
// <bsdf> of the Mitsuba XML format to radio materials, in both dialects: `itu-radio-material` and
// `radio-material` plugins, and visual plugins whose id names a class (`mat-itu_concrete`).

#include <optional>
#include <pugixml.hpp>
#include <string>
#include <vector>

#include "mitsuba_attributes.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise::mitsuba {

/// What a bsdf turned out to be: a material, or the reason why it is none.
struct ResolvedBsdf {
  std::optional<Material> material;
  std::string name;       ///< the bsdf's id, or its class where it has none
  std::string given_key;  ///< the key of SceneReadOptions::materials that gave it; empty: the file did
  std::string problem;    ///< set where there is no material: what was found
  std::string nearest;    ///< the nearest class, to suggest
};

/// Resolves a bsdf node. Constants out of range are data errors with file and line; an unknown class or
/// plugin comes back as a problem, so that all of them can be listed together.
ResolvedBsdf resolve_bsdf(pugi::xml_node node, const Attributes& attributes, const SceneReadOptions& options,
                          std::vector<std::string>* notes);

}  // namespace shardwise::mitsuba
