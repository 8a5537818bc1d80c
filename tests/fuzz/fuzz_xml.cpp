#include "fuzz.hpp"
#include "shardwise/scene/scene_io.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardwise;
  return fuzz::expect_data_errors(data, size, [](std::string_view text) {
    std::vector<std::string> notes;
    SceneReadOptions options;
    options.material_override = "concrete";
    options.materials["given"] = make_itu_material("given", "glass");
    read_mitsuba_xml(text, "/nonexistent", "fuzz.xml", options, &notes);
  });
}
