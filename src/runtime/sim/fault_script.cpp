// The text of fault scripts.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/runtime/sim_faults.hpp"

namespace shardwise {

const char* to_string(FaultKind kind) noexcept {
  switch (kind) {
    case FaultKind::fails:
      return "fails";
    case FaultKind::lost:
      return "lost";
    case FaultKind::hangs:
      return "hangs";
    case FaultKind::slow_device:
    case FaultKind::slow_link:
      return "slow";
    case FaultKind::no_peer:
      return "no-peer";
  }
  return "?";
}

const char* to_string(FaultStep step) noexcept {
  switch (step) {
    case FaultStep::allocation:
      return "allocation";
    case FaultStep::launch:
      return "launch";
    case FaultStep::copy:
      return "copy";
    case FaultStep::operation:
      return "operation";
  }
  return "?";
}

namespace {

std::string count_or_any(std::int64_t value) {
  return value == Fault::any ? "*" : fmt::format("{}", value);
}

}  // namespace

std::string Fault::text() const {
  if (kind == FaultKind::slow_link) return fmt::format("link {} {} slow {}", from, to, factor);
  if (kind == FaultKind::no_peer) return fmt::format("link {} {} no-peer", from, to);
  if (kind == FaultKind::slow_device) return fmt::format("device {} slow {}", count_or_any(device), factor);
  return fmt::format("device {} {} {}{} {}", count_or_any(device), to_string(step), count_or_any(number),
                     name.empty() ? "" : fmt::format(" of \"{}\"", name), to_string(kind));
}

std::string FaultScript::text() const {
  std::string result;
  for (const Fault& fault : faults) result += fault.text() + "; ";
  if (random_rate > 0) result += fmt::format("random {} {}; ", random_seed, random_rate);
  if (deadline_s != FaultScript{}.deadline_s) result += fmt::format("deadline {}; ", deadline_s);
  if (!result.empty()) result.resize(result.size() - 2);
  return result;
}

namespace {

/// One line, word by word.
class LineReader {
 public:
  LineReader(std::string_view line, int number, std::string_view option) : option_(option), number_(number) {
    std::size_t at = 0;
    while (at < line.size()) {
      if (line[at] == ' ' || line[at] == '\t' || line[at] == '\r') {
        ++at;
      } else if (line[at] == '"') {
        const std::size_t end = line.find('"', at + 1);
        if (end == std::string_view::npos) fail("a text in quotes has no end");
        words_.push_back({std::string(line.substr(at + 1, end - at - 1)), true});
        at = end + 1;
      } else {
        const std::size_t end = std::min(line.find_first_of(" \t\r\"", at), line.size());
        words_.push_back({std::string(line.substr(at, end - at)), false});
        at = end;
      }
    }
  }

  bool is_over() const { return next_ == words_.size(); }
  bool next_is(std::string_view word) const { return !is_over() && words_[next_].text == word; }
  void skip() { ++next_; }

  std::string word(const std::vector<std::string>& known) {
    const std::string found = take("one of " + fmt::format("{}", fmt::join(known, ", ")));
    if (std::find(known.begin(), known.end(), found) != known.end()) return found;
    const std::string near = nearest_word(found, known);
    fail(fmt::format("'{}' is not {}{}", found, fmt::join(known, ", "),
                     near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  std::string quoted() {
    if (is_over() || !words_[next_].quoted) fail("a text in quotes is missing behind 'of'");
    return words_[next_++].text;
  }
  std::int64_t whole(const char* what, std::int64_t least, bool may_be_any) {
    const std::string found = take(what);
    if (may_be_any && found == "*") return Fault::any;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (error != std::errc() || end != found.data() + found.size() || value < least ||
        value > 1'000'000'000'000)
      fail(fmt::format("'{}' is no {}; write a whole number from {}{}", found, what, least,
                       may_be_any ? ", or * for any" : ""));
    return value;
  }
  double number(const char* what) {
    const std::string found = take(what);
    double value = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (error != std::errc() || end != found.data() + found.size() || !std::isfinite(value))
      fail(fmt::format("'{}' is no {}", found, what));
    return value;
  }
  void end() {
    if (!is_over()) fail(fmt::format("'{}' is one word too many", words_[next_].text));
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw_usage(
        fmt::format("{}: line {}: {}; a fault reads like 'device 1 launch 7 fails'", option_, number_, why));
  }

 private:
  struct Word {
    std::string text;
    bool quoted;
  };
  std::string take(const std::string& what) {
    if (is_over()) fail("something is missing: " + what);
    return words_[next_++].text;
  }

  std::string option_;
  int number_;
  std::vector<Word> words_;
  std::size_t next_ = 0;
};

Fault device_fault(LineReader& line) {
  Fault fault;
  fault.device = static_cast<int>(line.whole("device number", 0, true));
  const std::string what = line.word({"allocation", "launch", "copy", "operation", "slow"});
  if (what == "slow") {
    fault.kind = FaultKind::slow_device;
    fault.factor = line.number("factor");
    if (!(fault.factor > 0)) line.fail("a factor must be above 0");
    return fault;
  }
  fault.step = what == "allocation" ? FaultStep::allocation
               : what == "launch"   ? FaultStep::launch
               : what == "copy"     ? FaultStep::copy
                                    : FaultStep::operation;
  fault.number = line.whole("number of a step", 1, true);
  if (line.next_is("of")) {
    line.skip();
    fault.name = line.quoted();
  }
  const std::string kind = line.word({"fails", "lost", "hangs"});
  fault.kind = kind == "fails" ? FaultKind::fails : kind == "lost" ? FaultKind::lost : FaultKind::hangs;
  if (fault.kind == FaultKind::hangs && fault.step == FaultStep::allocation)
    line.fail("an allocation cannot hang; let it fail, or the device be lost");
  return fault;
}

Fault link_fault(LineReader& line) {
  Fault fault;
  fault.from = static_cast<int>(line.whole("device number", 0, false));
  fault.to = static_cast<int>(line.whole("device number", 0, false));
  if (fault.from == fault.to) line.fail("a link joins two different devices");
  if (line.word({"slow", "no-peer"}) == "no-peer") {
    fault.kind = FaultKind::no_peer;
    return fault;
  }
  fault.kind = FaultKind::slow_link;
  fault.factor = line.number("factor");
  if (!(fault.factor > 0)) line.fail("a factor must be above 0");
  return fault;
}

void read_line(LineReader& line, FaultScript& script) {
  const std::string word = line.word({"device", "link", "random", "deadline"});
  if (word == "device") {
    script.faults.push_back(device_fault(line));
  } else if (word == "link") {
    script.faults.push_back(link_fault(line));
  } else if (word == "random") {
    script.random_seed = static_cast<std::uint64_t>(line.whole("seed", 0, false));
    script.random_rate = line.number("rate");
    if (script.random_rate < 0 || script.random_rate > 1) line.fail("a rate is from 0 to 1");
  } else {
    script.deadline_s = line.number("number of seconds");
    if (!(script.deadline_s > 0)) line.fail("a deadline must be above 0");
  }
  line.end();
}

}  // namespace

FaultScript parse_faults(std::string_view text, std::string_view option) {
  FaultScript script;
  int number = 1;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::string_view whole_line = text.substr(begin, text.find('\n', begin) - begin);
    begin += whole_line.size() + 1;
    whole_line = whole_line.substr(0, whole_line.find('#'));
    std::size_t at = 0;
    while (at <= whole_line.size()) {
      const std::string_view piece = whole_line.substr(at, whole_line.find(';', at) - at);
      at += piece.size() + 1;
      LineReader line(piece, number, option);
      if (!line.is_over()) read_line(line, script);
    }
    ++number;
  }
  return script;
}

}  // namespace shardwise
