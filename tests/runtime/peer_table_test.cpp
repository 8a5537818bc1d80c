// A driver that says yes where copies bring garbage: the pair is found, staged, and said once; numbers are
// right.

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "runtime/peer_table.hpp"

namespace shardwise {
namespace {

enum class Fault { none, zeros, one_bit, reads_garbage, loses_writes };

using Words = std::vector<std::uint32_t>;

/// Devices whose memory is a vector, and links that may be broken one way.
struct Machine {
  std::map<std::pair<int, int>, Fault> faults;
  int tried = 0;

  Fault fault(int source, int target) const {
    const auto found = faults.find({source, target});
    return found == faults.end() ? Fault::none : found->second;
  }
  /// What a copy over the link brings.
  Words copy(int source, int target, const Words& words) const {
    Words got = words;
    if (fault(source, target) == Fault::zeros) got.assign(words.size(), 0);
    if (fault(source, target) == Fault::one_bit) got[words.size() / 2] ^= 1;
    return got;
  }
};
struct Side {
  const Machine& machine;
  int device;
  Words words;

  void write(const Words& values) { words = values; }
  Words read() const { return words; }
  void copy_from(const Side& other) { words = machine.copy(other.device, device, other.words); }
  void reach_into(Side& other) {
    const Fault fault = machine.fault(other.device, device);
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = fault == Fault::reads_garbage && i == 7 ? 1 : other.words[i];
      if (fault != Fault::loses_writes) other.words[i] = ~other.words[i];
    }
  }
};

constexpr std::size_t words = 64;

template <int Most>
std::vector<std::string> probe(PeerTable<Most>& table, Machine& machine, int devices, bool require = false) {
  std::vector<typename PeerTable<Most>::Member> members;
  for (int d = 0; d < devices; ++d) members.push_back({d, "gpu:" + std::to_string(d)});
  std::vector<std::string> warnings;
  table.probe(
      members, require,
      [&](int source, int target) {
        ++machine.tried;
        Side from{machine, source, Words(words)}, to{machine, target, Words(words)};
        return brings_pattern(from, to, source, target, words);
      },
      warnings);
  return warnings;
}

TEST(PeerTable, AFaultyCopyLeadsToStagingRightNumbersAndOneWarning) {
  for (const Fault fault : {Fault::zeros, Fault::one_bit, Fault::reads_garbage, Fault::loses_writes}) {
    Machine machine;
    machine.faults[{2, 0}] = machine.faults[{1, 2}] = fault;
    PeerTable<4> table;
    const std::vector<std::string> warnings = probe(table, machine, 3);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0],
              "no working peer access gpu:1 to gpu:2, gpu:2 to gpu:0: copies go through pinned host memory");
    EXPECT_EQ(machine.tried, 6);
    // Copies as the table sends them: staged ones by way of the host, which no link garbles.
    Words sent(words);
    for (std::size_t i = 0; i < words; ++i) sent[i] = 0x9e3779b9u * static_cast<std::uint32_t>(i + 1);
    for (int source = 0; source < 3; ++source)
      for (int target = 0; target < 3; ++target) {
        if (source == target) continue;
        const bool staged = table.staged(source, target);
        EXPECT_EQ(staged, machine.fault(source, target) != Fault::none) << source << " to " << target;
        EXPECT_EQ(staged ? sent : machine.copy(source, target, sent), sent);
      }
  }
}

TEST(PeerTable, EveryPairIsTriedOnceAndARequiredOneIsRefused) {
  Machine machine;
  machine.faults[{0, 1}] = Fault::zeros;
  PeerTable<4> table;
  EXPECT_EQ(probe(table, machine, 2).size(), 1u);
  EXPECT_EQ(probe(table, machine, 2).size(), 1u);  // said again, not tried again
  EXPECT_EQ(machine.tried, 2);
  EXPECT_EQ(probe(table, machine, 3).size(), 1u);
  EXPECT_EQ(machine.tried, 6);
  try {
    probe(table, machine, 2, true);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    EXPECT_NE(std::string(error.what()).find("gpu:0 to gpu:1"), std::string::npos) << error.what();
  }
  Machine sound;
  PeerTable<4> other;
  EXPECT_TRUE(probe(other, sound, 4, true).empty());
}

}  // namespace
}  // namespace shardwise
