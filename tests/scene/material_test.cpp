// Radio materials: names, the table's numbers, ranges.

#include "shardwise/scene/material.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "scene/scene_test_util.hpp"

namespace shardwise {
namespace {

using test::expect_error;

MaterialAtFrequency at(const char* itu_class, double hz, std::vector<std::string>* warnings = nullptr) {
  return evaluate(make_itu_material(itu_class, itu_class), hz, warnings == nullptr, warnings);
}

TEST(Material, ConcreteAt3500MHz) {
  const auto concrete = at("concrete", 3.5e9);
  EXPECT_DOUBLE_EQ(concrete.eta_r, 5.24);
  EXPECT_NEAR(concrete.sigma, 0.123087, 5e-7);
  EXPECT_EQ(concrete.mu_r, 1);
  EXPECT_EQ(concrete.thickness, 0.1);
  EXPECT_EQ(concrete.gain, 1);
  EXPECT_FALSE(concrete.perfect_conductor);
}

TEST(Material, ValuesThatFollowFromTheFormulaByHand) {
  // At 1 GHz every power is 1, so the row's a and c stand bare.
  for (const ItuEntry& entry : itu_table()) {
    if (entry.low_ghz > 1 || entry.high_ghz == 0) continue;
    const auto value = at(std::string(entry.name).c_str(), 1e9);
    EXPECT_EQ(value.eta_r, entry.a) << entry.name;
    EXPECT_EQ(value.sigma, entry.c) << entry.name;
  }
  EXPECT_NEAR(at("wet_ground", 10e9).eta_r, 30 * std::pow(10.0, -0.4), 1e-12);
  EXPECT_NEAR(at("wet_ground", 10e9).sigma, 0.15 * std::pow(10.0, 1.3), 1e-12);
  EXPECT_EQ(at("vacuum", 5e12).eta_r, 1);
  EXPECT_EQ(at("vacuum", 5e12).sigma, 0);
  EXPECT_EQ(at("metal", 28e9).sigma, 1e7);
}

TEST(Material, TwoRangesOfGlass) {
  EXPECT_EQ(at("glass", 60e9).eta_r, 6.31);
  EXPECT_EQ(at("glass", 300e9).eta_r, 5.79);
  std::vector<std::string> warnings;
  EXPECT_EQ(at("glass", 110e9, &warnings).eta_r, 6.31) << "110 GHz is nearer to 100 than to 220";
  EXPECT_EQ(at("glass", 200e9, &warnings).eta_r, 5.79);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(warnings[0].find("0.1 to 100 GHz and 220 to 450 GHz"), std::string::npos) << warnings[0];
  EXPECT_EQ(at("ceiling_board", 300e9).eta_r, 1.52);
}

TEST(Material, RangesAreClosed) {
  at("concrete", 1e9);
  at("concrete", 100e9);
  at("marble", 60e9);
  at("glass", 220e9);
  at("wood", 1e6);
}

TEST(Material, OutsideItsRangeWarnsOrFails) {
  std::vector<std::string> warnings;
  const auto ground = at("medium_dry_ground", 28e9, &warnings);
  EXPECT_NEAR(ground.eta_r, 15 * std::pow(28.0, -0.1), 1e-12);
  ASSERT_EQ(warnings.size(), 1u);
  for (const char* word : {"medium_dry_ground", "1 to 10 GHz", "28 GHz", "extrapolated"}) {
    EXPECT_NE(warnings[0].find(word), std::string::npos) << warnings[0];
  }
  expect_error(ErrorClass::data, {"medium_dry_ground", "1 to 10 GHz", "28 GHz"},
               [] { at("medium_dry_ground", 28e9); });
}

TEST(Material, ConstantsHoldAtEveryFrequency) {
  Material material;
  material.name = "mine";
  material.eta_r = 3;
  material.sigma = 0.25;
  material.mu_r = 2;
  material.thickness = 0.3;
  material.gain = 0.5;
  const auto value = evaluate(material, 77e9, true, nullptr);
  EXPECT_EQ(value, (MaterialAtFrequency{3, 0.25, 2, 0.3, 0.5, false}));
  material.sigma = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(evaluate(material, 77e9, true, nullptr).perfect_conductor);
}

TEST(Material, ConstantsOutOfRangeAreRefusedByName) {
  const auto refuses = [](const char* key, double Material::*field, double value) {
    Material material;
    material.name = "mine";
    material.*field = value;
    expect_error(ErrorClass::usage, {key, "'mine'"}, [&] { validate_material(material, "test"); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, inf, -1.0, 0.0}) refuses("eta_r", &Material::eta_r, bad);
  for (const double bad : {nan, inf, -1.0, 0.0}) refuses("mu_r", &Material::mu_r, bad);
  for (const double bad : {nan, -1.0}) refuses("sigma", &Material::sigma, bad);
  for (const double bad : {nan, inf, -1.0}) refuses("thickness", &Material::thickness, bad);
  for (const double bad : {nan, inf, -1.0}) refuses("gain", &Material::gain, bad);
}

TEST(Material, NamesToClasses) {
  EXPECT_EQ(itu_class_from_name("concrete"), "concrete");
  EXPECT_EQ(itu_class_from_name("itu_glass"), "glass");
  EXPECT_EQ(itu_class_from_name("mat-itu_very_dry_ground"), "very_dry_ground");
  std::string note;
  EXPECT_EQ(itu_class_from_name("itu_brick", &note), "brick");
  EXPECT_TRUE(note.empty());
  EXPECT_EQ(itu_class_from_name("itu_concrete.001", &note), "concrete");
  EXPECT_NE(note.find("itu_concrete.001"), std::string::npos);
  EXPECT_FALSE(itu_class_from_name("itu_concrete.x1"));
  EXPECT_FALSE(itu_class_from_name("itu_concrete."));
  EXPECT_FALSE(itu_class_from_name("steel"));
  EXPECT_FALSE(itu_class_from_name("Concrete"));
  EXPECT_FALSE(itu_class_from_name(""));
}

TEST(Material, SuggestsTheNearestClass) {
  EXPECT_EQ(nearest_itu_class("mat-itu_conrete"), "concrete");
  EXPECT_EQ(nearest_itu_class("Wet-Ground"), "wet_ground");
  EXPECT_EQ(nearest_itu_class("itu_metall.003"), "metal");
  expect_error(ErrorClass::usage, {"'glas'", "'glass'"}, [] { make_itu_material("window", "glas"); });
}

TEST(Material, FrequencyMustBePositive) {
  for (const double bad : {0.0, -1e9, std::nan(""), HUGE_VAL}) {
    expect_error(ErrorClass::usage, {"frequency"}, [&] { at("vacuum", bad); });
  }
}

}  // namespace
}  // namespace shardwise
