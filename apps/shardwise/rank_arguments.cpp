#include "rank_arguments.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ranks.hpp"
#include "report_file.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

/// What may differ: it decides how fast a rank is and what it says, not what comes out.
const std::set<std::string> own_affairs{
    "--devices",    "--allow-mixed", "--require-peer", "--share-gpus", "--sim-seed",
    "--sim-faults", "--weights",     "--chunk",        "--memory",     "--on-device-failure",
    "--deadline",   "--log-file",    "--verbose",      "--quiet"};

/// "" has the command; an option its values.
std::map<std::string, std::string> arguments_of(const CLI::App& root) {
  std::map<std::string, std::string> arguments;
  for (const CLI::App* app = &root;; app = app->get_subcommands().front()) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->count() == 0 || own_affairs.contains(option->get_name())) continue;
      std::string& values = arguments[option->get_name()];
      for (const std::string& value : option->results()) values += (values.empty() ? "" : " ") + value;
    }
    if (app->get_subcommands().empty()) break;
    arguments[""] += " " + app->get_subcommands().front()->get_name();
  }
  return arguments;
}

std::string said(const std::map<std::string, std::string>& arguments, const std::string& name) {
  const auto found = arguments.find(name);
  if (name.empty()) return fmt::format("'{}'", found == arguments.end() ? "" : found->second.substr(1));
  if (found == arguments.end()) return fmt::format("no {}", name);
  const bool is_flag = found->second == "true";
  return is_flag ? name : fmt::format("{} {}", name, found->second);
}

}  // namespace

void require_same_arguments(const CLI::App& root) {
  if (!has_ranks()) return;
  // A file's name may hold any bytes.
  const std::string mine = Json(arguments_of(root)).dump(-1, ' ', false, Json::error_handler_t::replace);
  // As long as they are alike, what crosses ranks does not depend on them.
  const Blake3::Digest digest = Blake3().update(mine).digest();
  const auto digests = ranks().gather_all(std::as_bytes(std::span(digest)), "arguments of the ranks");
  if (std::ranges::all_of(digests, [&](const auto& other) { return other == digests.front(); })) return;
  std::vector<std::map<std::string, std::string>> all;
  for (const std::string& text : ranks().gather_text(mine, -1, "arguments of the ranks"))
    all.push_back(Json::parse(text).get<std::map<std::string, std::string>>());
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    std::set<std::string> unlike;
    for (const auto* one : {&all[0], &all[r]})
      for (const auto& [name, values] : *one) {
        const auto in_0 = all[0].find(name), in_r = all[r].find(name);
        if (in_0 == all[0].end() || in_r == all[r].end() || in_0->second != in_r->second) unlike.insert(name);
      }
    const std::string& name = *unlike.begin();
    throw_usage(
        fmt::format("the ranks have different command lines: rank 0 has {}, rank {} has {}; give every rank "
                    "the same (these alone may differ: {})",
                    said(all[0], name), r, said(all[r], name), fmt::join(own_affairs, ", ")));
  }
}

void require_same_contents(const std::string& what, std::string_view contents) {
  if (!has_ranks()) return;
  const Blake3::Digest digest = Blake3().update(contents).digest();
  const auto digests = ranks().gather_all(std::as_bytes(std::span(digest)), "contents of a file");
  for (std::size_t r = 1; r < digests.size(); ++r)
    if (digests[r] != digests.front())
      throw_usage(
          fmt::format("{} of rank {} on host {} is another one than that of rank 0 on host {}; give every "
                      "rank the same file",
                      what, r, ranks().host(static_cast<int>(r)), ranks().host(0)));
}

}  // namespace shardwise::program
