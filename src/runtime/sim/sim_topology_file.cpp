// Topology files of the sim platform.

#include <fmt/format.h>

#include "runtime/small_file.hpp"
#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/runtime/sim_topology.hpp"

#if defined(SHARDWISE_WITH_TOML)
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <functional>
#endif

namespace shardwise {

SimTopology read_sim_topology(const std::string& path) {
  return parse_sim_topology(read_small_file(path, "sim topology", "check its name, or write sim:N"), path);
}

#if defined(SHARDWISE_WITH_TOML)

namespace {

constexpr std::int64_t known_schema = 1;
constexpr std::int64_t most_devices = 512;

/// A table that is read key by key: each is known, or an error names the nearest.
class Reader {
 public:
  Reader(const toml::table& table, std::string path, std::string what)
      : table_(table), path_(std::move(path)), what_(std::move(what)) {}

  /// A finite number above zero, or of at least zero, in units of `unit`.
  void number(const char* key, double& value, bool may_be_zero, double unit = 1) {
    known_.emplace_back(key);
    if (const toml::node* node = table_.get(key)) value = number_of(*node, key, may_be_zero, unit);
  }
  double number_of(const toml::node& node, const std::string& key, bool may_be_zero, double unit = 1) const {
    const auto found = node.value<double>();
    if (!found || !(node.is_floating_point() || node.is_integer())) fail(node, key, "is not a number");
    const double value = *found * unit;
    if (!std::isfinite(value) || value < 0 || (value == 0 && !may_be_zero))
      fail(node, key,
           fmt::format("is {}; give a finite number {} 0", *found, may_be_zero ? "of at least" : "above"));
    return value;
  }
  void text(const char* key, std::string& value) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (!node) return;
    if (!node->is_string()) fail(*node, key, "is not a text in quotes");
    value = *node->value<std::string>();
  }
  void flag(const char* key, bool& value) {
    known_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (!node) return;
    if (!node->is_boolean()) fail(*node, key, "is neither true nor false");
    value = *node->value<bool>();
  }
  const toml::node* node(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }
  void finish() const {
    for (const auto& [key_view, node] : table_) {
      const std::string key(key_view.str());
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      const std::string near = nearest_word(key, known_);
      throw_data(fmt::format("{}: {} has no key '{}'; {}", place(node), what_, key,
                             near.empty() ? fmt::format("known are {}", fmt::join(known_, ", "))
                                          : "did you mean '" + near + "'?"));
    }
  }
  std::string place(const toml::node& node) const {
    return fmt::format("sim topology {}:{}", path_, node.source().begin.line);
  }
  [[noreturn]] void fail(const toml::node& node, const std::string& key, const std::string& why) const {
    throw_data(fmt::format("{}: '{}' of {} {}", place(node), key, what_, why));
  }

 private:
  const toml::table& table_;
  std::string path_, what_;
  std::vector<std::string> known_;
};

class TopologyParser {
 public:
  TopologyParser(const toml::table& file, std::string path) : file_(file), path_(std::move(path)) {}

  SimTopology parse() {
    topology_.name = path_;
    Reader reader(file_, path_, "the file");
    const toml::node* schema = reader.node("schema");
    if (!schema) throw_data(fmt::format("sim topology {}: no 'schema'; write schema = 1 at the top", path_));
    if (!schema->is_integer() || schema->value<std::int64_t>() != known_schema)
      reader.fail(*schema, "schema", fmt::format("must be {}, which this build reads", known_schema));
    reader.text("name", topology_.name);
    const toml::node* devices = reader.node("devices");
    const toml::node* links = reader.node("links");
    const toml::node* items = reader.node("ns_per_item");
    reader.finish();
    if (!devices)
      throw_data(fmt::format("sim topology {}: no devices; write [[devices]] with a count", path_));
    each(reader, *devices, "devices", [&](const toml::table& table) { add_devices(table); });
    if (links) each(reader, *links, "links", [&](const toml::table& table) { add_link(table); });
    topology_.ns_per_item[""] = SimCosts{}.ns_per_item;
    if (items) add_items(reader, *items);
    try {
      validate(topology_, "sim topology " + path_);
    } catch (const Error& error) {
      throw_data(error.what());
    }
    return std::move(topology_);
  }

 private:
  static void each(const Reader& reader, const toml::node& node, const char* key,
                   const std::function<void(const toml::table&)>& function) {
    const toml::array* array = node.as_array();
    if (!array || array->empty())
      reader.fail(node, key, fmt::format("is no list of tables; write [[{}]]", key));
    for (const toml::node& entry : *array) {
      if (!entry.is_table()) reader.fail(entry, key, fmt::format("holds no table; write [[{}]]", key));
      function(*entry.as_table());
    }
  }

  void add_devices(const toml::table& table) {
    Reader reader(table, path_, "[[devices]]");
    SimDeviceModel device;
    const toml::node* count_node = reader.node("count");
    std::int64_t count = 1;
    if (count_node) {
      if (!count_node->is_integer()) reader.fail(*count_node, "count", "is no whole number");
      count = *count_node->value<std::int64_t>();
      if (count < 1 || count > most_devices)
        reader.fail(*count_node, "count", fmt::format("is {}, not 1 to {}", count, most_devices));
    }
    reader.text("model", device.model);
    std::string memory;
    const toml::node* memory_node = table.get("memory");
    reader.text("memory", memory);
    if (memory_node) {
      try {
        device.memory_bytes = parse_bytes(memory, "'memory'");
      } catch (const Error& error) {
        throw_data(fmt::format("{}: {}", reader.place(*memory_node), error.what()));
      }
      // Zero is how a model says that it has as much as this machine.
      if (device.memory_bytes == 0)
        reader.fail(*memory_node, "memory",
                    fmt::format("is \"{}\"; give a size above 0, or leave it out", memory));
    }
    reader.number("speed", device.speed, false);
    reader.number("launch_us", device.launch_s, true, 1e-6);
    reader.number("memory_gb_s", device.memory_bytes_per_s, false, 1e9);
    reader.finish();
    topology_.devices.insert(topology_.devices.end(), static_cast<std::size_t>(count), device);
  }

  void add_end(const Reader& reader, const toml::node& node, const char* key, std::vector<int>& ends) {
    if (node.is_integer()) {
      const std::int64_t end = *node.value<std::int64_t>();
      if (end < 0 || end >= static_cast<std::int64_t>(topology_.devices.size()))
        reader.fail(node, key, fmt::format("names device {}, there are {}", end, topology_.devices.size()));
      ends.push_back(static_cast<int>(end));
      return;
    }
    const std::string word = node.is_string() ? *node.value<std::string>() : "";
    if (word == "host" || word == "any") ends.push_back(SimLink::host);
    if (word == "all" || word == "any")
      for (std::size_t d = 0; d < topology_.devices.size(); ++d) ends.push_back(static_cast<int>(d));
    if (word != "host" && word != "any" && word != "all")
      reader.fail(node, key,
                  "is no end of a link; write device numbers, \"all\" (devices), \"host\" or \"any\" (both)");
  }
  std::vector<int> ends(Reader& reader, const toml::table& table, const char* key) {
    const toml::node* node = reader.node(key);
    std::vector<int> result;
    if (!node)
      throw_data(fmt::format("{}: [[links]] has no '{}'; every link joins some ends with others",
                             reader.place(table), key));
    if (const toml::array* array = node->as_array())
      for (const toml::node& entry : *array) add_end(reader, entry, key, result);
    else
      add_end(reader, *node, key, result);
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }

  void add_link(const toml::table& table) {
    Reader reader(table, path_, "[[links]]");
    SimLink link;
    link.name = fmt::format("link {}", topology_.links.size());
    reader.text("name", link.name);
    link.from = ends(reader, table, "from");
    link.to = ends(reader, table, "to");
    reader.number("gb_s", link.bytes_per_s, false, 1e9);
    reader.number("us", link.latency_s, true, 1e-6);
    reader.flag("peer", link.peer);
    std::string shared = "pair";
    reader.text("shared_by", shared);
    static const std::vector<std::pair<std::string, SimSharing>> words{{"copy", SimSharing::copy},
                                                                       {"pair", SimSharing::pair},
                                                                       {"from", SimSharing::from},
                                                                       {"to", SimSharing::to},
                                                                       {"all", SimSharing::all}};
    const auto found =
        std::find_if(words.begin(), words.end(), [&](const auto& word) { return word.first == shared; });
    if (found == words.end())
      reader.fail(*table.get("shared_by"), "shared_by",
                  fmt::format("is '{}'; write copy, pair, from, to or all", shared));
    link.sharing = found->second;
    bool both_ways = link.from != link.to;
    reader.flag("both_ways", both_ways);
    reader.finish();
    if (!(link.bytes_per_s > 0))
      throw_data(fmt::format("{}: link '{}' has no speed; write gb_s = 50", reader.place(table), link.name));
    topology_.links.push_back(link);
    if (!both_ways || link.from == link.to) return;
    std::swap(link.from, link.to);
    link.name += " back";
    if (link.sharing == SimSharing::from || link.sharing == SimSharing::to)
      link.sharing = link.sharing == SimSharing::from ? SimSharing::to : SimSharing::from;
    topology_.links.push_back(link);
  }

  void add_items(const Reader& reader, const toml::node& node) {
    const toml::table* table = node.as_table();
    if (!table) reader.fail(node, "ns_per_item", "is no table; write [ns_per_item] with default = 1.0");
    const Reader items(*table, path_, "[ns_per_item]");
    for (const auto& [key_view, value] : *table) {
      const std::string key(key_view.str());
      const bool is_default = key == "default";
      // Any other name is the beginning of an operation's, but for this one misspelt.
      if (!is_default && !nearest_word(key, {"default"}).empty())
        items.fail(value, key, "is no beginning of an operation's name; did you mean 'default'?");
      topology_.ns_per_item[is_default ? "" : key] = items.number_of(value, key, true);
    }
  }

  const toml::table& file_;
  std::string path_;
  SimTopology topology_;
};

}  // namespace

SimTopology parse_sim_topology(std::string_view text, const std::string& path) {
  toml::table file;
  try {
    file = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw_data(fmt::format("sim topology {}:{}: {}; mend the TOML", path, error.source().begin.line,
                           error.description()));
  }
  return TopologyParser(file, path).parse();
}

#else

SimTopology parse_sim_topology(std::string_view, const std::string& path) {
  throw_usage(fmt::format(
      "devices: 'sim:{}': this build cannot read TOML; install libtomlplusplus-dev and configure again, or "
      "use a preset",
      path));
}

#endif

}  // namespace shardwise
