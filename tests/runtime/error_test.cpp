#include "shardwise/runtime/error.hpp"

#include <gtest/gtest.h>

#include <set>

namespace shardwise {
namespace {

struct Row {
  ErrorClass error_class;
  const char* word;
  int code;
};

// The contract of the program's exit codes.
constexpr Row rows[] = {
    {ErrorClass::usage, "usage", 2},
    {ErrorClass::data, "data", 3},
    {ErrorClass::state, "state", 1},
    {ErrorClass::device, "device", 1},
    {ErrorClass::memory, "memory", 1},
    {ErrorClass::budget, "budget", 1},
    {ErrorClass::poisoned, "poisoned", 1},
    {ErrorClass::lost, "lost", 1},
    {ErrorClass::io, "io", 1},
    {ErrorClass::mismatch, "mismatch", 1},
    {ErrorClass::not_converged, "not_converged", 1},
    {ErrorClass::interrupted, "interrupted", 1},
    {ErrorClass::internal, "internal", 1},
};

TEST(ErrorClasses, HaveTheirWordsAndExitCodes) {
  std::set<std::string> words;
  for (const Row& row : rows) {
    EXPECT_STREQ(to_string(row.error_class), row.word);
    EXPECT_EQ(exit_code(row.error_class), row.code) << row.word;
    EXPECT_TRUE(words.insert(row.word).second);
  }
  // Every class is in the table: they are numbered without gaps up to the last.
  EXPECT_EQ(std::size(rows), static_cast<std::size_t>(ErrorClass::internal) + 1);
}

TEST(Errors, CarryTheirClassAndText) {
  const Error error(ErrorClass::budget, "needs 5 bytes");
  EXPECT_EQ(error.error_class(), ErrorClass::budget);
  EXPECT_STREQ(error.what(), "needs 5 bytes");
  EXPECT_EQ(DependencyError("x").error_class(), ErrorClass::device);
  const auto class_of = [](void (*thrower)(const std::string&)) {
    try {
      thrower("text");
    } catch (const Error& thrown) {
      EXPECT_STREQ(thrown.what(), "text");
      return thrown.error_class();
    }
    return ErrorClass::internal;
  };
  EXPECT_EQ(class_of(throw_usage), ErrorClass::usage);
  EXPECT_EQ(class_of(throw_data), ErrorClass::data);
  EXPECT_EQ(class_of(throw_state), ErrorClass::state);
}

}  // namespace
}  // namespace shardwise
