#include "version.hpp"

#include <fmt/core.h>

#include "commit.hpp"

namespace shardwise::program {
namespace {

constexpr const char* host_architecture =
#if defined(__x86_64__)
    "x86-64-v3";
#else
    "as the compiler's default";
#endif
constexpr bool has_cuda =
#if defined(SHARDWISE_WITH_CUDA)
    true;
#else
    false;
#endif
constexpr bool has_embree =
#if defined(SHARDWISE_WITH_EMBREE)
    true;
#else
    false;
#endif
constexpr bool has_io =
#if defined(SHARDWISE_WITH_IO)
    true;
#else
    false;
#endif
constexpr bool has_mpi =
#if defined(SHARDWISE_WITH_MPI)
    true;
#else
    false;
#endif
constexpr bool has_pictures =
#if defined(SHARDWISE_WITH_PICTURES)
    true;
#else
    false;
#endif

}  // namespace

const BuildFacts& build_facts() {
  // The definitions come from this folder's CMakeLists.txt.
  static const BuildFacts facts{SHARDWISE_VERSION,
                                SHARDWISE_COMMIT,
                                SHARDWISE_COMPILER,
                                SHARDWISE_CUDA_COMPILER,
                                SHARDWISE_CUDA_ARCHITECTURES,
                                SHARDWISE_BUILD_TYPE,
                                SHARDWISE_SANITIZER,
                                SHARDWISE_LIBRARY_KIND,
                                {{"cuda", has_cuda},
                                 {"embree", has_embree},
                                 {"io", has_io},
                                 {"mpi", has_mpi},
                                 {"pictures", has_pictures},
                                 {"toml", SHARDWISE_TOML_FOUND != 0}}};
  return facts;
}

std::string version_text() {
  const BuildFacts& facts = build_facts();
  std::string text =
      fmt::format("shardwise {}\ncommit    {}\nbuild     {}, {} libraries, {}{}\n", facts.version,
                  facts.commit, facts.build_type, facts.library_kind, facts.compiler,
                  facts.sanitizer.empty() ? "" : ", sanitizer " + facts.sanitizer);
  text += fmt::format("host      {}\n", host_architecture);
  text += has_cuda
              ? fmt::format("cuda      {}, architectures {}\n", facts.cuda_compiler, facts.cuda_architectures)
              : "cuda      not built in\n";
  text += "options  ";
  for (const auto& [part, built] : facts.parts) text += fmt::format(" {}={}", part, built ? "yes" : "no");
  return text + "\n";
}

}  // namespace shardwise::program
