#include "shardwise/runtime/parse.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    return error.what();
  }
  return "accepted";
}

std::uint64_t bytes(std::string_view text) {
  return parse_bytes(text, "--memory");
}
std::int64_t count(std::string_view text) {
  return parse_count(text, "--chunk");
}
double frequency(std::string_view text) {
  return parse_frequency(text, "--frequency");
}

TEST(ParseBytes, UnitsAreExact) {
  EXPECT_EQ(bytes("0"), 0u);
  EXPECT_EQ(bytes("4096"), 4096u);
  EXPECT_EQ(bytes("64Mi"), 64u << 20);
  EXPECT_EQ(bytes("64MiB"), 64u << 20);
  EXPECT_EQ(bytes("100k"), 100000u);
  EXPECT_EQ(bytes("100K"), 100000u);
  EXPECT_EQ(bytes("2GB"), 2000000000u);
  EXPECT_EQ(bytes("1.5Gi"), std::uint64_t{3} << 29);
  EXPECT_EQ(bytes("0.5Ki"), 512u);
  EXPECT_EQ(bytes("2e9"), 2000000000u);
  EXPECT_EQ(bytes("2.5e3k"), 2500000u);
  EXPECT_EQ(bytes("1.10T"), 1100000000000u) << "1.1 has no exact double; the decimal text does";
  EXPECT_EQ(bytes("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(bytes("0.0009765625Ki"), 1u);
}

TEST(ParseBytes, RefusalsSayWhereAndWhatIsAccepted) {
  EXPECT_EQ(refusal([] { bytes("64Mx"); }),
            "--memory: \"64Mx\" is not a size in bytes: unexpected \"Mx\" at character 3; accepted: a number "
            "with an "
            "optional k, M, G, T (decimal) or Ki, Mi, Gi, Ti (binary) and an optional B, such as 64Mi");
  EXPECT_NE(refusal([] { bytes(""); }).find("it is empty"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("-5"); }).find("unexpected \"-5\" at character 1"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("Mi"); }).find("unexpected \"Mi\" at character 1"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("64 Mi"); }).find("unexpected \" Mi\" at character 3"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("1.5"); }).find("whole number"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("0.0001k"); }).find("whole number"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("18446744073709551616"); }).find("above the largest"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("16777216Ti"); }).find("above the largest"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("1e40"); }).find("above the largest"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("1e99999"); }).find("unexpected \"e99999\""), std::string::npos);
  EXPECT_NE(refusal([] { bytes(std::string(60, '9')); }).find("more digits"), std::string::npos);
  EXPECT_NE(refusal([] { bytes("."); }).find("unexpected \".\""), std::string::npos);
  EXPECT_NE(refusal([] { bytes("nan"); }).find("unexpected \"nan\""), std::string::npos);
}

TEST(ParseCount, TakesDecimalAndBinaryUnits) {
  EXPECT_EQ(count("100k"), 100000);
  EXPECT_EQ(count("2M"), 2000000);
  EXPECT_EQ(count("1.5M"), 1500000);
  EXPECT_EQ(count("64Ki"), 65536);
  EXPECT_EQ(count("9223372036854775807"), INT64_MAX);
  EXPECT_NE(refusal([] { count("9223372036854775808"); }).find("above the largest, 9223372036854775807"),
            std::string::npos);
  EXPECT_NE(refusal([] { count("5B"); }).find("unexpected \"B\" at character 2"), std::string::npos);
}

TEST(ParseFrequency, UnitsGiveTheNearestDouble) {
  EXPECT_EQ(frequency("3.5GHz"), 3.5e9);
  EXPECT_EQ(frequency("868MHz"), 868e6);
  EXPECT_EQ(frequency("0.868GHz"), 868e6);
  EXPECT_EQ(frequency("1.1GHz"), 1100000000.0);
  EXPECT_EQ(frequency("440Hz"), 440.0);
  EXPECT_EQ(frequency("3.5e9"), 3.5e9);
  EXPECT_EQ(frequency("2.4e3MHz"), 2.4e9);
  EXPECT_NE(refusal([] { frequency("3.5Ghz"); }).find("unexpected \"Ghz\" at character 4"),
            std::string::npos);
  EXPECT_NE(refusal([] { frequency("0"); }).find("above 0"), std::string::npos);
  EXPECT_NE(refusal([] { frequency("-1GHz"); }).find("above 0"), std::string::npos);
  EXPECT_NE(refusal([] { frequency("inf"); }).find("not finite"), std::string::npos);
  EXPECT_NE(refusal([] { frequency("1e306GHz"); }).find("range"), std::string::npos);
}

TEST(ParseNumber, TakesTheWholeText) {
  EXPECT_EQ(parse_number("-2.5", "--cell"), -2.5);
  EXPECT_EQ(parse_number("+4", "--cell"), 4.0);
  EXPECT_EQ(parse_number("1e-3", "--cell"), 1e-3);
  EXPECT_NE(refusal([] { parse_number("5m", "--cell"); }).find("unexpected \"m\" at character 2"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_number("+-4", "--cell"); }).find("unexpected"), std::string::npos);
  EXPECT_NE(refusal([] { parse_number("1e999", "--cell"); }).find("range"), std::string::npos);
  EXPECT_NE(refusal([] { parse_number("nan", "--cell"); }).find("not finite"), std::string::npos);
}

TEST(ParseWhole, NamesItsRange) {
  EXPECT_EQ(parse_whole("-3", "--z", -3, 3), -3);
  EXPECT_EQ(
      refusal([] { parse_whole("4", "--diffraction", 0, 3); }),
      "--diffraction: \"4\" is not a whole number: it is out of range; accepted: a whole number from 0 to 3");
  EXPECT_NE(refusal([] { parse_whole("99999999999999999999", "--z", 0, 3); }).find("out of range"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_whole("1.5", "--z", 0, 3); }).find("unexpected \".5\" at character 2"),
            std::string::npos);
}

TEST(ParseLists, PointsAndTuples) {
  EXPECT_EQ(parse_list("5,1,0", "--weights"), (std::vector<double>{5, 1, 0}));
  EXPECT_EQ(parse_list("2.5", "--weights"), (std::vector<double>{2.5}));
  EXPECT_EQ(parse_point("8.5,21,60", "--tx"), (std::array<double, 3>{8.5, 21, 60}));
  EXPECT_EQ(parse_point("-1e3,+2,-0.5", "--tx"), (std::array<double, 3>{-1000, 2, -0.5}));
  EXPECT_EQ(parse_tuple("0,1,2,3", "--area", {"x0", "y0", "x1", "y1"}), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(
      refusal([] { parse_point("8.5,21", "--tx"); }),
      "--tx: \"8.5,21\" is not a point: it has 2 numbers instead of 3; accepted: x,y,z in metres, such as "
      "8.5,21,60");
  EXPECT_NE(refusal([] { parse_point("8.5,x,60", "--tx"); }).find("unexpected \"x,60\" at character 5"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_point("8.5,,60", "--tx"); }).find("no number at character 5"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_list("1,2,", "--weights"); }).find("no number at character 5"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_list("1, 2", "--weights"); }).find("unexpected \" 2\" at character 3"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_list("1;2", "--weights"); }).find("unexpected \";2\" at character 2"),
            std::string::npos);
  EXPECT_NE(refusal([] { parse_list("1,inf", "--weights"); }).find("\"inf\" at character 3 is not finite"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              parse_tuple("1,2", "--area", {"x0", "y0", "x1", "y1"});
            }).find("accepted: x0,y0,x1,y1"),
            std::string::npos);
}

TEST(Text, ReadsBackToTheSameValue) {
  EXPECT_EQ(bytes_text(64u << 20), "64Mi");
  EXPECT_EQ(bytes_text(1000), "1000");
  EXPECT_EQ(bytes_text(0), "0");
  EXPECT_EQ(count_text(100000), "100k");
  EXPECT_EQ(count_text(65536), "65536");
  EXPECT_EQ(frequency_text(3.5e9), "3.5GHz");
  EXPECT_EQ(frequency_text(868e6), "868MHz");
  EXPECT_EQ(frequency_text(440), "440Hz");
  std::mt19937_64 engine(31);
  for (int round = 0; round < 5000; ++round) {
    const std::uint64_t value = (engine() >> (engine() % 64)) << (engine() % 41);
    EXPECT_EQ(bytes(bytes_text(value)), value);
    const auto rows = static_cast<std::int64_t>(engine() >> (1 + engine() % 63));
    EXPECT_EQ(count(count_text(rows)), rows);
    const std::int64_t round_rows = rows / 1000000 * 1000;
    EXPECT_EQ(count(count_text(round_rows)), round_rows);
    const double hertz =
        std::ldexp(static_cast<double>((engine() >> 11) + 1), static_cast<int>(engine() % 20) - 30);
    EXPECT_EQ(frequency(frequency_text(hertz)), hertz);
    const double tidy = static_cast<double>(1 + engine() % 100000) * 1e5;
    EXPECT_EQ(frequency(frequency_text(tidy)), tidy);
  }
}

TEST(Text, HumanBytesKeepThreeDigits) {
  EXPECT_EQ(human_bytes(123), "123 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(64u << 20), "64.0 MiB");
  EXPECT_EQ(human_bytes((1u << 20) - 1), "1.00 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{141} << 30), "141 GiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(NearestWord, FindsTyposAndNothingElse) {
  const std::vector<std::string> known = {"concrete", "glass", "brick", "metal"};
  EXPECT_EQ(nearest_word("concrte", known), "concrete");
  EXPECT_EQ(nearest_word("gless", known), "glass");
  EXPECT_EQ(nearest_word("metal", known), "metal");
  EXPECT_EQ(nearest_word("wood", known), "");
  EXPECT_EQ(nearest_word("", known), "");
  EXPECT_EQ(nearest_word("x", {}), "");
}

}  // namespace
}  // namespace shardwise
