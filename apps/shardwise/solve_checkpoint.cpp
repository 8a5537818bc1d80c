#include "solve_checkpoint.hpp"

#include <fmt/core.h>

#include <cstring>

#include "sealed_file.hpp"

namespace shardwise::program {
namespace {

constexpr SealedKind kind{std::string_view("SWSTATE\0", 8), 1,
                          "no state of a solve; give a file of --checkpoint", "copy it again",
                          "begin again, or use an earlier state"};

}  // namespace

std::string state_bytes(const SolveState& state) {
  const Json header = {{"schema", kind.schema},
                       {"parameters", state.parameters},
                       {"step", state.step},
                       {"time", state.time},
                       {"cells", state.u.size()}};
  return seal(kind, header, {bytes_of(state.u)});
}

SolveState parse_state(std::string_view bytes, const std::string& path) {
  const Unsealed file = unseal(kind, bytes, path);
  SolveState state;
  std::uint64_t cells = 0;
  try {
    const Json header = Json::parse(file.header);
    state.parameters = header.at("parameters");
    state.step = header.at("step").get<std::int64_t>();
    state.time = header.at("time").get<double>();
    cells = header.at("cells").get<std::uint64_t>();
  } catch (const Json::exception& error) {
    throw_damaged(kind, path, error.what());
  }
  if (state.step < 0 || cells != file.payload.size() / sizeof(double))
    throw_damaged(kind, path,
                  fmt::format("{} cells at step {} in {} bytes", cells, state.step, file.payload.size()));
  state.u.resize(cells);
  std::memcpy(state.u.data(), file.payload.data(), cells * sizeof(double));
  return state;
}

SolveState read_state(const std::string& path) {
  return parse_state(read_sealed(path), path);
}

}  // namespace shardwise::program
