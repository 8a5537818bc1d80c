#pragma once
// Attributes of XML nodes with $name substituted from <default>, numbers parsed, and errors that know their
// line.

#include <map>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::mitsuba {

class Attributes {
 public:
  Attributes(std::string_view text, std::string label) : text_(text), label_(std::move(label)) {}

  void set_default(const std::string& name, const std::string& value) { defaults_[name] = value; }

  const std::string& label() const { return label_; }
  std::size_t line_of(pugi::xml_node node) const;
  std::size_t line_at(std::ptrdiff_t offset) const;

  /// "FILE, line N: what" as a data error.
  [[noreturn]] void fail(pugi::xml_node node, const std::string& what) const;

  /// The attribute with `$name` replaced; empty where it is absent.
  std::string text(pugi::xml_node node, const char* attribute) const;
  bool has(pugi::xml_node node, const char* attribute) const { return !node.attribute(attribute).empty(); }

  /// The numbers of an attribute, separated by blanks or commas.
  std::vector<double> numbers(pugi::xml_node node, const char* attribute) const;
  /// One number; `fallback` where the attribute is absent.
  double number(pugi::xml_node node, const char* attribute, double fallback) const;
  bool boolean(pugi::xml_node node, const char* attribute) const;

 private:
  std::string_view text_;
  std::string label_;
  std::map<std::string, std::string> defaults_;
};

}  // namespace shardwise::mitsuba
