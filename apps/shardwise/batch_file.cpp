#include "batch_file.hpp"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "report_file.hpp"
#include "run_folder.hpp"
#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/parse.hpp"
#include "shardwise/shard/hash.hpp"

namespace shardwise::program {
namespace {

/// A value as it stands in a message: its beginning, if it is long.
std::string shown(const Json& value) {
  constexpr std::size_t most = 80;
  const std::string text = value.dump();
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

/// A place in the file, for messages.
class Place {
 public:
  Place(const std::string& path, int line) : text_(fmt::format("{}:{}", path, line)) {}
  Place(const Place& outer, const std::string& key) : text_(fmt::format("{}: {}", outer.text_, key)) {}
  [[noreturn]] void refuse(const std::string& problem) const {
    throw_data(fmt::format("{}: {}", text_, problem));
  }

  void check_keys(const Json& object, const std::vector<std::string>& known) const {
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      const std::string near = nearest_word(key, known);
      std::string all;
      for (const std::string& word : known) all += (all.empty() ? "" : ", ") + word;
      refuse(fmt::format("unknown key '{}'; {}", key,
                         near.empty() ? "known: " + all : fmt::format("did you mean '{}'?", near)));
    }
  }
  std::string text_of(const Json& value) const {
    if (!value.is_string()) refuse(fmt::format("is {}, not a text", shown(value)));
    return value.get<std::string>();
  }
  std::uint64_t whole(const Json& value, std::uint64_t least, std::uint64_t most) const {
    const bool good = value.is_number_unsigned() && value.get<std::uint64_t>() >= least &&
                      value.get<std::uint64_t>() <= most;
    if (!good) refuse(fmt::format("is {}; give a whole number from {} to {}", value.dump(), least, most));
    return value.get<std::uint64_t>();
  }
  std::uint64_t bytes(const Json& value) const {
    if (value.is_string()) {
      try {
        return parse_bytes(value.get<std::string>(), text_);
      } catch (const Error& error) {  // in the words of an option, which it is not here
        throw_data(error.what());
      }
    }
    return whole(value, 0, std::numeric_limits<std::uint64_t>::max());
  }
  std::vector<std::string> texts(const Json& value) const {
    if (!value.is_array()) refuse(fmt::format("is {}; give a list of texts", shown(value)));
    std::vector<std::string> result;
    for (const Json& entry : value) result.push_back(text_of(entry));
    return result;
  }
  std::array<unsigned, 3> extent(const Json& value) const {
    constexpr std::uint64_t most = 0x7fffffff;
    if (value.is_number()) return {static_cast<unsigned>(whole(value, 1, most)), 1, 1};
    if (!value.is_array() || value.empty() || value.size() > 3)
      refuse(fmt::format("is {}; give one to three whole numbers", shown(value)));
    std::array<unsigned, 3> result{1, 1, 1};
    for (std::size_t i = 0; i < value.size(); ++i)
      result[i] = static_cast<unsigned>(whole(value[i], 1, most));
    return result;
  }
  /// {"int": 5}, {"long": 5}, {"float": 0.5}, {"double": 0.5}: what the kernel declares.
  std::vector<std::byte> scalar(const Json& value) const {
    if (value.is_object() && value.size() == 1) {
      const std::string kind = value.begin().key();
      const Json& number = value.begin().value();
      if (number.is_number_integer() && kind == "int") {
        const auto wide = number.get<std::int64_t>();
        if (wide < INT32_MIN || wide > INT32_MAX)
          refuse(fmt::format("{} does not fit an int", number.dump()));
        return job_scalar(static_cast<std::int32_t>(wide));
      }
      if (number.is_number_integer() && kind == "long") return job_scalar(number.get<std::int64_t>());
      if (number.is_number() && kind == "float") return job_scalar(number.get<float>());
      if (number.is_number() && kind == "double") return job_scalar(number.get<double>());
    }
    refuse(fmt::format("is {}; give {{\"int\": 5}}, or long, float, double", shown(value)));
  }

 private:
  std::string text_;
};

BatchCuda cuda_of(const Json& json, const Place& place) {
  if (!json.is_object()) place.refuse(fmt::format("is {}, not an object", shown(json)));
  place.check_keys(
      json, {"file", "kernel", "grid", "block", "shared_bytes", "inputs", "outputs", "scalars", "options"});
  for (const char* needed : {"file", "kernel"})
    if (!json.contains(needed)) place.refuse(fmt::format("has no '{}'; give one", needed));
  BatchCuda cuda;
  for (const auto& [key, value] : json.items()) {
    const Place here(place, key);
    if (key == "file") cuda.file = here.text_of(value);
    if (key == "kernel") cuda.kernel = here.text_of(value);
    if (key == "grid") cuda.launch.grid = here.extent(value);
    if (key == "block") cuda.launch.block = here.extent(value);
    if (key == "shared_bytes")
      cuda.launch.shared_bytes = static_cast<unsigned>(here.whole(value, 0, 1u << 30));
    if (key == "inputs") cuda.inputs = here.texts(value);
    if (key == "options") cuda.options = here.texts(value);
    if (key == "outputs" || key == "scalars") {
      if (!value.is_array()) here.refuse(fmt::format("is {}, not a list", shown(value)));
      for (const Json& entry : value) {
        if (key == "outputs")
          cuda.launch.output_bytes.push_back(here.bytes(entry));
        else
          cuda.launch.scalars.push_back(here.scalar(entry));
      }
    }
  }
  return cuda;
}

BatchJob job_of(const Json& json, const Place& place, int line) {
  if (!json.is_object()) place.refuse("is no JSON object; write {\"id\": \"a\", \"command\": [\"true\"]}");
  place.check_keys(json, {"id", "key", "cost", "bytes", "command", "cuda", "timeout_s", "retries"});
  BatchJob job;
  job.line = line;
  for (const auto& [key, value] : json.items()) {
    const Place here(place, key);
    if (key == "id") job.id = value.is_number_unsigned() ? value.dump() : here.text_of(value);
    if (key == "key") job.key = here.text_of(value);
    if (key == "cost") job.cost = here.whole(value, 1, std::numeric_limits<std::uint64_t>::max());
    if (key == "bytes") job.bytes = here.bytes(value);
    if (key == "command") {
      job.command = here.texts(value);
      if (job.command.empty() || job.command.front().empty()) here.refuse("is empty; name a program");
      for (const std::string& word : job.command)
        if (word.find('\0') != std::string::npos)
          here.refuse("has a zero byte, where a program's argument would end; leave it out");
    }
    if (key == "cuda") job.cuda = cuda_of(value, here);
    if (key == "retries") job.retries = static_cast<int>(here.whole(value, 0, 1000));
    if (key == "timeout_s") {
      if (!value.is_number() || !(value.get<double>() > 0))
        here.refuse(fmt::format("is {}; give seconds above 0", shown(value)));
      job.timeout_s = value.get<double>();
    }
  }
  if (job.id.empty()) job.id = job.key;
  if (job.id.empty()) place.refuse("has neither 'id' nor 'key'; give an id");
  if (job.command.empty() == !job.cuda)
    place.refuse(fmt::format("job '{}' has {} 'command' {} 'cuda'; give one of them", job.id,
                             job.cuda ? "both" : "neither", job.cuda ? "and" : "nor"));
  // What decides the result; not how it is placed, or how often it is tried.
  Json decisive;
  for (const char* key : {"command", "cuda"})
    if (json.contains(key)) decisive[key] = json[key];
  const std::string canonical = decisive.dump();
  job.digest = blake3_hex(canonical.data(), canonical.size());
  return job;
}

}  // namespace

namespace {

/// One object. Refuses a key that comes twice, and nesting that is no job's.
Json parse_line(const std::string& row, const Place& place) {
  constexpr int deepest = 16;
  std::vector<std::set<std::string>> keys;
  return Json::parse(row, [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > deepest) place.refuse(fmt::format("is nested more than {} deep; no job is", deepest));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      place.refuse(fmt::format("the key {} comes twice; leave one out", shown(value)));
    return true;
  });
}

}  // namespace

std::vector<BatchJob> parse_batch(const std::string& text, const std::string& path) {
  std::vector<BatchJob> jobs;
  std::map<std::string, int> lines;
  int line = 0;
  std::uint64_t total = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string row = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    if (row.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Place place(path, line);
    Json json;
    try {
      json = parse_line(row, place);
    } catch (const Json::parse_error& error) {
      place.refuse(fmt::format("no JSON, at character {}; write one object a line", error.byte));
    } catch (const Json::out_of_range& error) {
      constexpr std::size_t most = 80;
      // "... parsing '1e999'"
      const std::string words = error.what();
      const std::size_t number = words.find('\'');
      place.refuse(fmt::format("a number is too large for any key{}; give a smaller one",
                               number == std::string::npos ? "" : ": " + words.substr(number, most)));
    }
    jobs.push_back(job_of(json, place, line));
    check_unit_name(jobs.back().id, fmt::format("{}:{}: the id", path, line));
    const auto [first, fresh] = lines.emplace(jobs.back().id, line);
    if (!fresh)
      place.refuse(
          fmt::format("the id '{}' is that of line {}, too; ids are unique", jobs.back().id, first->second));
    const std::uint64_t cost = jobs.back().cost;
    if (cost > std::numeric_limits<std::uint64_t>::max() - total)
      place.refuse(
          fmt::format("with cost {} the costs add up to over 64 bits; give all in a larger unit", cost));
    total += cost;
  }
  if (jobs.empty()) throw_data(fmt::format("'{}' has no jobs; write one JSON object a line", path));
  return jobs;
}

namespace {

/// The text of a CUDA program decides its result, too. One that cannot be read is refused where it is needed.
void add_sources(std::vector<BatchJob>& jobs) {
  std::map<std::string, std::string> texts;
  for (BatchJob& job : jobs) {
    if (!job.cuda) continue;
    const auto [found, fresh] = texts.emplace(job.cuda->file, "");
    try {
      if (fresh) found->second = read_whole_file(job.cuda->file, "CUDA source");
    } catch (const Error&) {
      continue;
    }
    job.digest = Blake3().update(job.digest).update(found->second).hex();
  }
}

}  // namespace

std::vector<BatchJob> read_batch(const std::string& path) {
  std::vector<BatchJob> jobs = parse_batch(read_whole_file(path, "batch"), path);
  add_sources(jobs);
  return jobs;
}

}  // namespace shardwise::program
