#include "file_arguments.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

enum class Use { input, output, state };

Use use_of(const CLI::Option& option) {
  constexpr std::array states{"--checkpoint", "--partial", "--resume", "--restart"};
  // These are read, although they are called FILE as what is written is.
  constexpr std::array inputs{"--materials", "--scene", "--baseline", "--calibration"};
  if (option.get_positional()) return Use::input;
  const std::string name = option.get_name();
  if (std::find(states.begin(), states.end(), name) != states.end()) return Use::state;
  if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) return Use::input;
  const bool folder_or_file = name == "-o" || name == "--output";
  return folder_or_file || option.get_type_name().starts_with("FILE") ? Use::output : Use::input;
}

/// Files that a value names among other things: 'sim:lab.toml+host:1', '@faults'.
std::vector<std::string> files_within(const std::string& option, const std::string& value) {
  std::vector<std::string> files;
  if (option == "--sim-faults" && value.starts_with('@')) files.push_back(value.substr(1));
  if (option != "--devices") return files;
  std::istringstream parts(value);
  for (std::string part; std::getline(parts, part, '+');)
    if (part.starts_with("sim:")) files.push_back(part.substr(4));
  return files;
}

/// The file itself, whatever it is called; one that does not exist by its folder.
std::string identity(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path), error);
  return error ? path : whole.string();
}

}  // namespace

void check_file_arguments(const CLI::App& command) {
  std::map<std::string, std::string> inputs, outputs, states;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    for (const std::string& value : option->results()) {
      if (value.empty() && option->get_expected_max() > 0)
        throw_usage(fmt::format("{} is empty (''); give a value, or leave it out", name));
      std::error_code ignored;
      for (const std::string& file : files_within(name, value))
        if (fs::is_regular_file(file, ignored)) inputs.emplace(identity(file), file);
      switch (use_of(*option)) {
        case Use::input:  // or no file at all
          if (fs::is_regular_file(value, ignored)) inputs.emplace(identity(value), value);
          break;
        case Use::state:
          states.emplace(identity(value), name);
          break;
        case Use::output: {
          if (value == "-" || (fs::exists(value, ignored) && !fs::is_regular_file(value, ignored))) break;
          const auto [first, fresh] = outputs.emplace(identity(value), name);
          if (!fresh)
            throw_usage(first->second == name
                            ? fmt::format("{} names '{}' twice; leave one out", name, value)
                            : fmt::format("{} and {} name the same file ('{}'); choose another",
                                          first->second, name, value));
        }
      }
    }
  }
  for (const auto& [file, name] : states) {
    const auto output = outputs.find(file);
    if (output != outputs.end())
      throw_usage(
          fmt::format("{} and {} name the same file ('{}'); choose another", output->second, name, file));
  }
  for (const auto& [file, value] : inputs)
    for (const auto* written : {&outputs, &states}) {
      const auto found = written->find(file);
      if (found != written->end())
        throw_usage(fmt::format("{} would overwrite '{}', which the command reads; choose another file",
                                found->second, value));
    }
}

}  // namespace shardwise::program
