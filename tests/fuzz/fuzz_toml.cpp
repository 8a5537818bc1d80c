#include "fuzz.hpp"
#include "materials_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardwise;
  return fuzz::expect_data_errors(data, size,
                                  [](std::string_view text) { program::parse_materials(text, "fuzz.toml"); });
}
