#include "fuzz.hpp"
#include "scene/io/mesh_formats.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardwise;
  return fuzz::expect_data_errors(data, size, [](std::string_view bytes) {
    std::vector<std::string> notes;
    // No folder of that name: files beside the scene are not there.
    fuzz::build(parse_gltf(bytes, "/nonexistent", "fuzz.glb", "fuzz", &notes), UpAxis::y);
  });
}
