// The stored digests of small maps that touch every part of the model. Where one differs, bits of maps have
// changed: raise physics_version (include/shardwise/radio/physics_version.hpp), so that kept maps of before
// are not taken for those of now, and store the new digests beside the new number.

#include "shardwise/radio/physics_version.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "reference/library.hpp"
#include "scene/scene_test_util.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise {
namespace {

using namespace test;

constexpr int kStoredVersion = 1;

struct Stored {
  const char* what;
  const char* digest;  ///< BLAKE3 of gain, standard error and crossings
  CoverageOptions options;
};

std::vector<Stored> stored() {
  CoverageOptions base;
  base.transmitters = {{{2.2, 2.1, 3.3}, 2.0}, {{8.1, 6.2, 1.2}, 0.5}};
  base.grid = {2, 1.5, 0, 10, 0, 8, 10, 8};
  base.samples = 4000;
  base.passes = 5;
  base.bounces = 3;
  CoverageOptions slab = base, wave = base, side = base, far = base;
  slab.slab_walls = true;
  wave.frequency_hz = 28e9;
  wave.polarization = {1, 0.5, 0.25};
  wave.seed = 99;
  side.grid = {0, 3.0, 0, 8, 0, 5, 16, 10};
  side.bounces = 0;
  far.bounces = 12;
  far.passes = 1;
  far.per_transmitter = true;
  return {{"reflections", "f5c665e4011269bfca6cfe932e5b6eac5112fd040d6bc2c30b44811783bb1d78", base},
          {"slab walls", "1b1da767fd2f5309d4cbcc9f60c6a87f38c2bee05bbff16769525f64f8387327", slab},
          {"another frequency, polarisation and seed",
           "5eaa7be9153e821078e4c877c1d0b8865fa82d5911e102bbf24e3313c11a5d40", wave},
          {"line of sight on a vertical plane",
           "3c8acaeab73d20117bd2d3164e3a67d284bd2c63094b2d90b7a89307cb4d6531", side},
          {"twelve bounces, one pass, each transmitter",
           "02e7c86c0daf97658fb3060e35af677ae36a5f6b08c4926e58f759f8802939a5", far}};
}

TEST(PhysicsVersion, IsRaisedWithEveryChangedBit) {
  ASSERT_EQ(physics_version, kStoredVersion) << "store the digests of the new version here";
  TestScene made;
  const int wall = made.add_material({5.24, 0.12}),
            metal = made.add_material({1, std::numeric_limits<double>::infinity()});
  made.add_box({0, 0, 0}, {10, 8, 5}, wall);
  made.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, metal, 0.4);
  for (const Stored& entry : stored()) {
    SceneOptions options;
    options.tracer = TracerChoice::bvh;  // the one that gives the same bits everywhere
    Scene scene(open_devices("host:1x1"), model_of(made), options);
    scene.build();
    const CoverageResult map = coverage(scene, entry.options).get();
    Blake3 hasher;
    hasher.update(map.gain.data(), map.gain.size() * sizeof(double));
    hasher.update(map.standard_error.data(), map.standard_error.size() * sizeof(double));
    hasher.update(map.crossings.data(), map.crossings.size() * sizeof(std::int64_t));
    hasher.update(map.transmitter_gain.data(), map.transmitter_gain.size() * sizeof(double));
    EXPECT_EQ(hasher.hex(), entry.digest)
        << entry.what << ": a bit of a map has changed; raise physics_version and store the digests";
  }
}

}  // namespace
}  // namespace shardwise
