// Files of a run's parts: what is written comes back, and nothing else does.

#include "partial_file.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

PartialFile sample() {
  PartialFile partial;
  partial.parameters = {{"seed", 1}, {"frequency_hz", 3.5e9 / 3}, {"area", {0.1, -2.0, 3.0, 4.0}}};
  partial.context = {{"title", "box"}};
  partial.is_open = {1, 0, 1};
  partial.outlines = {{0.1, 2, 3, 4}, {5, 6, 7, 8}};
  partial.sums.cell_count = 3;
  partial.sums.grids_per_pass = 2;
  partial.sums.first_grid = 4;
  partial.sums.scale = 0.25;
  partial.sums.windows = {{100, 50}, {200, 1}};
  partial.sums.segments = 321;
  partial.seconds = 0.1;
  for (std::int64_t i = 0; i < 6; ++i) partial.sums.cells.push_back({{i, 7 * i, i % 2 == 0 ? -i : i}, i});
  return partial;
}

/// Refused with a data error that says `part`.
void expect_refused(const std::string& bytes, const std::string& part) {
  try {
    parse_partial(bytes, "x.part");
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::data);
    EXPECT_NE(std::string(error.what()).find("'x.part'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

/// A file whose checksum is right, whatever was done to it.
std::string sealed(std::string bytes) {
  bytes.resize(bytes.size() - 32);
  const Blake3::Digest digest = Blake3().update(std::string_view(bytes)).digest();
  return bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

TEST(PartialFile, ComesBackAsItWas) {
  const PartialFile one = sample(), other = parse_partial(partial_bytes(one), "x.part");
  EXPECT_EQ(other.parameters, one.parameters);
  EXPECT_EQ(other.context, one.context);
  EXPECT_EQ(other.is_open, one.is_open);
  EXPECT_EQ(other.sums.windows, one.sums.windows);
  EXPECT_EQ(other.sums.first_grid, 4);
  EXPECT_EQ(other.sums.scale, 0.25);
  EXPECT_EQ(other.seconds, 0.1);
  EXPECT_EQ(other.outlines[0].x0, 0.1);
  EXPECT_EQ(partial_bytes(other), partial_bytes(one));
}

TEST(PartialFile, CutAnywhereIsRefused) {
  const std::string bytes = partial_bytes(sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    expect_refused(bytes.substr(0, size), size < 8 ? "no part of a coverage run" : "cut short");
  expect_refused(bytes + "x", "damaged");
}

TEST(PartialFile, EveryFlippedByteIsRefused) {
  const std::string bytes = partial_bytes(sample());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    EXPECT_THROW(parse_partial(bad, "x.part"), Error) << i;
  }
}

TEST(PartialFile, RightChecksumsDoNotExcuseNonsense) {
  const auto changed = [](const std::function<void(PartialFile&)>& change) {
    PartialFile partial = sample();
    change(partial);
    return partial_bytes(partial);
  };
  expect_refused(changed([](PartialFile& p) { p.sums.windows = {{100, 50}, {120, 50}}; }), "not in order");
  expect_refused(changed([](PartialFile& p) { p.sums.windows = {{100, 0}}; }), "not in order");
  expect_refused(changed([](PartialFile& p) { p.sums.first_grid = 3; }), "no whole passes");
  expect_refused(changed([](PartialFile& p) { p.sums.cells[2].digit[0] = -1; }), "normal form");
  expect_refused(changed([](PartialFile& p) { p.sums.cells[2].count = -1; }), "normal form");
  std::string bytes = partial_bytes(sample());
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::string bad = bytes;
    bad.replace(bad.find(from), from.size(), to);
    return sealed(bad);
  };
  expect_refused(replace("\"grid_count\":2", "\"grid_count\":9"), "do not fit");
  expect_refused(replace("\"grid_count\":2", "\"grid_count\":1"), "left over");
  expect_refused(replace("\"cell_count\":3", "\"cell_count\":0"), "do not fit");
  expect_refused(replace("\"open_cells\":3", "\"open_cells\":2"), "left over");
  expect_refused(replace("\"scale\"", "\"skale\""), "header");
  expect_refused(replace("{\"schema\"", "[\"schema\""), "header");
  std::string other_schema = bytes;
  other_schema[8] = 2;
  expect_refused(sealed(other_schema), "schema 2");
}

TEST(PartialFileProperty, RandomDamageNeverCrashes) {
  std::mt19937_64 random(4);
  const std::string bytes = partial_bytes(sample());
  for (int round = 0; round < 3000; ++round) {
    std::string bad = bytes;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 2) bad = sealed(bad);
    try {
      parse_partial(bad, "x.part");
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::data);
    }
  }
}

TEST(PartialFile, OtherRunsAreNamedByParameter) {
  const Json one = {{"seed", 1}, {"samples", 100}};
  check_same_run(one, "this run", one, "'b'");
  try {
    check_same_run(one, "this run", {{"seed", 2}, {"samples", 100}}, "'b'");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'b' is of another run than this run: seed is 2 there, and 1 here; give parts of one run");
  }
  EXPECT_THROW(check_same_run(one, "a", {{"seed", 1}}, "b"), Error);
  EXPECT_THROW(check_same_run({{"seed", 1}}, "a", one, "b"), Error);
}

}  // namespace
}  // namespace shardwise::program
