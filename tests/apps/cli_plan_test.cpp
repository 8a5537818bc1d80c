// What `--dry-run` promises is what the run then does.

#include <nlohmann/json.hpp>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

class Plans : public ProgramTest {
 protected:
  /// The `peak_bytes` of all devices in the report of a command.
  std::vector<std::int64_t> peaks(const Words& words) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<std::int64_t> result;
    const Json report = Json::parse(outcome.out, nullptr, false);
    for (const Json& device : report.value("devices", Json::array())) result.push_back(device["peak_bytes"]);
    EXPECT_FALSE(result.empty());
    return result;
  }
};

TEST_F(Plans, TheirPeaksAreTheRunsPeaks) {
  const std::vector<Words> splits{{},
                                  {"--min-rows", "0"},
                                  {"--min-rows", "0", "--weights", "3,0,1"},
                                  {"--min-rows", "0", "--weights", "0,1,1"},  // a master that only merges
                                  {"--chunk", "7000"},
                                  {"--memory", "3M"}};
  const std::vector<Words> kinds{{},
                                 {"--accumulation", "fast"},
                                 {"--accumulation", "ordered"},
                                 {"--passes", "1"},
                                 {"--per-tx", "--tx", "20,10,15"},
                                 {"--lanes", "100:30000", "--partial", path("part")}};
  for (const char* devices : {"host:3x1", "sim:3"})
    for (std::size_t s = 0; s < splits.size(); ++s)
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        // Each kind meets each split, on one of the two sets of devices.
        if ((s + k) % 2 == (devices[0] == 's' ? 0u : 1u)) continue;
        Words words{"coverage", box_scene(), "--tx",      "-10,0,10", "--samples", "40k",
                    "--cell",   "4",         "--devices", devices,    "--json",    "-"};
        words.insert(words.end(), splits[s].begin(), splits[s].end());
        words.insert(words.end(), kinds[k].begin(), kinds[k].end());
        std::string text;
        for (const std::string& word : words) text += word + " ";
        SCOPED_TRACE(text);
        Words planned = words;
        planned.emplace_back("--dry-run");
        EXPECT_EQ(peaks(planned), peaks(words));
      }
}

}  // namespace
}  // namespace shardwise::test
