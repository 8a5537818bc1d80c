#pragma once
// What every fuzz target does: a reader may refuse its input with a data error, and nothing else. What it
// accepts is built into a scene, so that an index it let through would be met.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "scene/io/placement.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::fuzz {

template <class Read>
int expect_data_errors(const std::uint8_t* data, std::size_t size, const Read& read) {
  try {
    read(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::data || *error.what() == '\0') std::abort();
  }
  return 0;
}

/// To a built scene: every index is used.
inline void build(std::vector<FileMesh> shapes, UpAxis up) {
  std::vector<std::string> notes;
  place_shapes(SceneModel(), std::move(shapes), up, {}, &notes);
}

}  // namespace shardwise::fuzz
