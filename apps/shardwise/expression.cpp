#include "expression.hpp"

#include <fmt/core.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <numbers>
#include <vector>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {

struct Expression::Node {
  std::function<double(const double (&)[4])> value;  ///< of x, y, z, t
};

namespace {

using Value = std::function<double(const double (&)[4])>;

class Parser {
 public:
  Parser(const std::string& option, const std::string& text) : option_(option), text_(text) {}

  Value parse() {
    Value value = sum();
    if (peek() != '\0') fail("an operator");
    return value;
  }
  const std::string& uses() const { return uses_; }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw_usage(fmt::format(
        "{}: '{}' is no formula: {} is expected at character {}{}; a formula is made of numbers, x, "
        "y, z, t, pi, + - * / ^, parentheses and functions such as sin(x)",
        option_, text_, expected, at_ + 1,
        at_ < text_.size() ? fmt::format(" ('{}')", text_.substr(at_, 12)) : " (its end)"));
  }
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  Value sum() {
    Value left = product();
    for (;;) {
      if (take('+')) {
        left = [a = left, b = product()](const double(&v)[4]) { return a(v) + b(v); };
      } else if (take('-')) {
        left = [a = left, b = product()](const double(&v)[4]) { return a(v) - b(v); };
      } else {
        return left;
      }
    }
  }
  Value product() {
    Value left = sign();
    for (;;) {
      if (take('*')) {
        left = [a = left, b = sign()](const double(&v)[4]) { return a(v) * b(v); };
      } else if (take('/')) {
        left = [a = left, b = sign()](const double(&v)[4]) { return a(v) / b(v); };
      } else {
        return left;
      }
    }
  }
  Value sign() {
    if (++depth_ > 200) fail("less nesting");
    Value result;
    if (take('-')) {
      result = [a = sign()](const double(&v)[4]) { return -a(v); };
    } else if (take('+')) {
      result = sign();
    } else {
      result = power();
    }
    --depth_;
    return result;
  }
  Value power() {
    Value base = atom();
    if (!take('^')) return base;
    return [a = base, b = sign()](const double(&v)[4]) { return std::pow(a(v), b(v)); };
  }
  Value atom() {
    if (take('(')) {
      Value inside = sum();
      if (!take(')')) fail("')'");
      return inside;
    }
    const char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') {
      const char* begin = text_.c_str() + at_;
      char* end = nullptr;
      const double number = std::strtod(begin, &end);
      if (end == begin) fail("a number");
      at_ += static_cast<std::size_t>(end - begin);
      return [number](const double(&)[4]) { return number; };
    }
    std::size_t end = at_;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_'))
      ++end;
    const std::string word = text_.substr(at_, end - at_);
    if (word.empty()) fail("a number, a name or '('");
    if (word.size() == 1 && std::string("xyzt").find(word) != std::string::npos) {
      at_ = end;
      const std::size_t index = std::string("xyzt").find(word);
      uses_ += word;
      return [index](const double(&v)[4]) { return v[index]; };
    }
    if (word == "pi") {
      at_ = end;
      return [](const double(&)[4]) { return std::numbers::pi; };
    }
    return call(word, end);
  }
  Value call(const std::string& word, std::size_t end) {
    static const std::map<std::string, double (*)(double)> one{
        {"sin", std::sin},  {"cos", std::cos},
        {"tan", std::tan},  {"exp", std::exp},
        {"log", std::log},  {"sqrt", std::sqrt},
        {"abs", std::fabs}, {"step", [](double v) { return v < 0 ? 0.0 : 1.0; }}};
    static const std::map<std::string, double (*)(double, double)> two{
        {"min", [](double a, double b) { return b < a ? b : a; }},
        {"max", [](double a, double b) { return a < b ? b : a; }},
        {"pow", std::pow}};
    if (!one.contains(word) && !two.contains(word)) fail("a known name");
    at_ = end;
    if (!take('(')) fail("'('");
    Value first = sum();
    Value result;
    if (one.contains(word)) {
      result = [f = one.at(word), a = first](const double(&v)[4]) { return f(a(v)); };
    } else {
      if (!take(',')) fail("','");
      result = [f = two.at(word), a = first, b = sum()](const double(&v)[4]) { return f(a(v), b(v)); };
    }
    if (!take(')')) fail("')'");
    return result;
  }

  const std::string& option_;
  const std::string& text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string uses_;
};

}  // namespace

Expression::Expression(const std::string& option, const std::string& text) : text_(text) {
  Parser parser(option, text);
  root_ = std::make_shared<const Node>(Node{parser.parse()});
  uses_ = parser.uses();
}

double Expression::operator()(double x, double y, double z, double t) const {
  const double v[4] = {x, y, z, t};
  return root_->value(v);
}

}  // namespace shardwise::program
