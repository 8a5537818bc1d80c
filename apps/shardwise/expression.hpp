#pragma once
// Formulas in x, y, z and t on the command line.

#include <memory>
#include <string>

namespace shardwise::program {

/// A parsed formula: numbers, x y z t pi, + - * / ^, parentheses, sin cos tan exp log sqrt abs min max pow
/// step (0 below 0, else 1).
class Expression {
 public:
  /// Throws a usage error that names the option, the place and what was expected.
  Expression(const std::string& option, const std::string& text);
  double operator()(double x, double y, double z, double t = 0) const;
  /// Whether the value depends on 'x', 'y', 'z' or 't'.
  bool uses(char name) const { return uses_.find(name) != std::string::npos; }
  bool uses_time() const { return uses('t'); }
  const std::string& text() const { return text_; }

  struct Node;

 private:
  std::string text_;
  std::shared_ptr<const Node> root_;
  std::string uses_;
};

}  // namespace shardwise::program
