#include <cstring>

#include "fuzz.hpp"
#include "shardwise/scene/scene_io.hpp"

// The input is the body of a dump: size and checksum are made to fit, or no input would come past them.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shardwise;
  return fuzz::expect_data_errors(data, size, [](std::string_view body) {
    std::string bytes("SWSCENE\0\2\0\0\0\0\0\0\0", 16);
    const std::uint64_t whole = bytes.size() + 8 + body.size() + 8;
    bytes.append(reinterpret_cast<const char*>(&whole), 8);
    bytes += body;
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    bytes.append(reinterpret_cast<const char*>(&hash), 8);
    parse_swscene(bytes, "fuzz.swscene");
  });
}
