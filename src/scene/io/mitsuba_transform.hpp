#pragma once
// <transform> of the Mitsuba XML format: operations compose in document order, each applied after those
// before it.

#include <pugixml.hpp>
#include <string>

#include "mitsuba_attributes.hpp"
#include "shardwise/scene/transform.hpp"

namespace shardwise::mitsuba {

/// Throws a data error with file and line for an unknown operation, a number that is none, a wrong count of
/// numbers.
Transform read_transform(pugi::xml_node node, const Attributes& attributes);

}  // namespace shardwise::mitsuba
