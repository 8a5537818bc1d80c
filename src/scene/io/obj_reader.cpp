#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "mesh_formats.hpp"
#include "shardwise/runtime/error.hpp"
#include "text_numbers.hpp"
#include "triangulate.hpp"

namespace shardwise {
namespace {

/// Faces in a row that share object, group and material.
struct Run {
  std::string name, material;
  std::size_t first_polygon = 0;
};

/// Statements of the format that say nothing of a surface of triangles, with what they are.
struct Statement {
  std::string_view keyword, what;
};
constexpr std::string_view kSilent = "";
constexpr std::string_view kFreeForm = "free-form curves and surfaces";
constexpr std::array<Statement, 39> kPassedOver{{
    {"vt", kSilent},        {"vn", kSilent},
    {"s", kSilent},         {"mtllib", kSilent},
    {"mg", kSilent},        {"bevel", kSilent},
    {"c_interp", kSilent},  {"d_interp", kSilent},
    {"lod", kSilent},       {"usemap", kSilent},
    {"maplib", kSilent},    {"shadow_obj", kSilent},
    {"trace_obj", kSilent}, {"vp", kFreeForm},
    {"cstype", kFreeForm},  {"deg", kFreeForm},
    {"bmat", kFreeForm},    {"step", kFreeForm},
    {"curv", kFreeForm},    {"curv2", kFreeForm},
    {"surf", kFreeForm},    {"parm", kFreeForm},
    {"trim", kFreeForm},    {"hole", kFreeForm},
    {"scrv", kFreeForm},    {"sp", kFreeForm},
    {"end", kFreeForm},     {"con", kFreeForm},
    {"bsp", kFreeForm},     {"bzp", kFreeForm},
    {"cdc", kFreeForm},     {"cdp", kFreeForm},
    {"res", kFreeForm},     {"ctech", kFreeForm},
    {"stech", kFreeForm},   {"l", "lines"},
    {"p", "points"},        {"call", "calls of other files"},
    {"csh", "commands"},
}};

class ObjParser {
 public:
  ObjParser(std::string_view bytes, const std::string& label, const std::string& stem)
      : rest_(bytes), label_(label), stem_(stem) {}

  void parse() {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);  // editors' byte order mark
    std::string_view line;
    while (next_line(line)) {
      if (const std::size_t comment = line.find('#'); comment != std::string_view::npos)
        line = line.substr(0, comment);
      const std::string_view keyword = take_word(line);
      if (keyword.empty()) continue;
      if (keyword == "v") {
        read_vertex(line);
      } else if (keyword == "f") {
        read_face(line);
      } else if (keyword == "o") {
        object_ = std::string(trimmed(line));
        group_.clear();
        changed_ = true;
      } else if (keyword == "g") {
        group_ = std::string(trimmed(line));
        changed_ = true;
      } else if (keyword == "usemtl") {
        material_ = std::string(trimmed(line));
        changed_ = true;
      } else {
        pass_over(keyword);
      }
    }
    check_indices();
  }

  std::vector<Vec3d> positions;
  Polygons polygons;
  std::vector<Run> runs;

  void note(std::vector<std::string>* notes) const {
    if (!notes) return;
    for (const auto& [what, count] : passed_over_) {
      notes->push_back(fmt::format("OBJ file '{}': {} are passed over ({} statements)", label_, what, count));
    }
  }

 private:
  [[noreturn]] void fail(std::size_t line, const std::string& what) const {
    throw_data(fmt::format("OBJ file '{}', line {}: {}", label_, line, what));
  }

  /// A line ends at \n, \r\n or \r; one that ends in a backslash goes on in the next.
  bool next_line(std::string_view& line) {
    joined_.clear();
    while (!rest_.empty()) {
      ++line_;
      const std::size_t end = std::min(rest_.find_first_of("\n\r"), rest_.size());
      std::string_view part = rest_.substr(0, end);
      rest_.remove_prefix(end);
      if (!rest_.empty()) rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : 1);
      if (part.empty() || part.back() != '\\') {
        if (joined_.empty()) {
          line = part;
        } else {
          joined_ += part;
          line = joined_;
        }
        return true;
      }
      part.remove_suffix(1);
      joined_ += part;
      joined_ += ' ';
    }
    line = joined_;
    return !joined_.empty();
  }

  void read_vertex(std::string_view line) {
    double value[3];
    for (double& coordinate : value) {
      const std::string_view word = take_word(line);
      if (word.empty()) fail(line_, "a vertex needs 3 coordinates; the line has fewer");
      const auto number = number_of(word);
      if (!number) fail(line_, fmt::format("'{}' is not a number", shown(word)));
      coordinate = *number;
    }
    // A weight or a colour may follow; neither moves the vertex.
    while (true) {
      const std::string_view word = take_word(line);
      if (word.empty()) break;
      if (!number_of(word)) fail(line_, fmt::format("'{}' is not a number", shown(word)));
    }
    if (positions.size() == std::numeric_limits<std::int32_t>::max())
      fail(line_, "more vertices than int32 counts");
    positions.push_back({value[0], value[1], value[2]});
  }

  /// "7", "7/1", "7//3", "7/1/3": the vertex, from 1, or from the last one back where negative.
  std::int32_t corner_of(std::string_view word) const {
    const std::string_view whole = word;
    std::int64_t vertex = 0;
    for (int part = 0; part < 3; ++part) {
      const std::size_t slash = std::min(word.find('/'), word.size());
      const std::string_view text = word.substr(0, slash);
      std::int64_t index = 0;
      if (!(text.empty() && part > 0)) {
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), index);
        if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || index == 0) {
          fail(line_, fmt::format("'{}' is no corner; write vertex, vertex/texture or "
                                  "vertex/texture/normal, whole numbers from 1",
                                  shown(whole)));
        }
      }
      if (part == 0) vertex = index;
      if (slash == word.size()) break;
      word.remove_prefix(slash + 1);
      if (part == 2) fail(line_, fmt::format("'{}' has more than 3 indices", shown(whole)));
    }
    const auto count = static_cast<std::int64_t>(positions.size());
    if (vertex < -count || vertex > std::numeric_limits<std::int32_t>::max()) {
      fail(line_, fmt::format("corner '{}' is no vertex: {} stand before this line", shown(whole), count));
    }
    return static_cast<std::int32_t>(vertex < 0 ? count + vertex : vertex - 1);
  }

  void read_face(std::string_view line) {
    std::size_t size = 0;
    while (true) {
      const std::string_view word = take_word(line);
      if (word.empty()) break;
      if (++size > kMaxPolygonCorners) {
        fail(line_, fmt::format("a face may have at most {} corners; split it", kMaxPolygonCorners));
      }
      polygons.corners.push_back(corner_of(word));
    }
    if (size < 3) fail(line_, fmt::format("a face needs 3 corners or more (got {})", size));
    if (changed_ || runs.empty()) begin_run();
    polygons.sizes.push_back(static_cast<std::int32_t>(size));
    lines_.push_back(line_);
  }

  void begin_run() {
    changed_ = false;
    std::string name = object_.empty() ? group_ : object_;
    if (!object_.empty() && !group_.empty() && group_ != object_) name += "/" + group_;
    if (name.empty()) name = stem_;
    if (!runs.empty() && runs.back().name == name && runs.back().material == material_) return;
    runs.push_back({std::move(name), material_, polygons.sizes.size()});
  }

  /// Only now is it known how many vertices there are: an index may point forward.
  void check_indices() const {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < polygons.sizes.size(); ++i) {
      for (std::int32_t k = 0; k < polygons.sizes[i]; ++k) {
        const std::int32_t index = polygons.corners[begin + static_cast<std::size_t>(k)];
        if (static_cast<std::size_t>(index) >= positions.size()) {
          fail(lines_[i], fmt::format("corner {} uses vertex {}, but the file has {}, counted from 1; it is "
                                      "truncated or damaged",
                                      k + 1, std::int64_t{index} + 1, positions.size()));
        }
      }
      begin += static_cast<std::size_t>(polygons.sizes[i]);
    }
  }

  void pass_over(std::string_view keyword) {
    const auto found = std::find_if(kPassedOver.begin(), kPassedOver.end(),
                                    [&](const Statement& known) { return known.keyword == keyword; });
    if (found == kPassedOver.end()) {
      fail(line_,
           fmt::format("'{}' is no OBJ statement; the file is damaged or of another format", shown(keyword)));
    }
    if (found->what.empty()) return;
    for (auto& [what, count] : passed_over_) {
      if (what == found->what) {
        ++count;
        return;
      }
    }
    passed_over_.emplace_back(found->what, 1);
  }

  std::string_view rest_;
  const std::string& label_;
  const std::string& stem_;
  std::string joined_;
  std::size_t line_ = 0;
  std::string object_, group_, material_;
  bool changed_ = false;
  std::vector<std::size_t> lines_;  // [polygons]
  std::vector<std::pair<std::string_view, std::size_t>> passed_over_;
};

/// A run's faces with the vertices they use, ascending.
FileMesh shape_of(const ObjParser& parsed, std::size_t run, std::size_t& corner, PolygonCount& count) {
  const std::size_t begin = parsed.runs[run].first_polygon;
  const std::size_t end =
      run + 1 < parsed.runs.size() ? parsed.runs[run + 1].first_polygon : parsed.polygons.sizes.size();
  Polygons own;
  own.sizes.assign(parsed.polygons.sizes.begin() + static_cast<std::ptrdiff_t>(begin),
                   parsed.polygons.sizes.begin() + static_cast<std::ptrdiff_t>(end));
  std::size_t corners = 0;
  for (const std::int32_t size : own.sizes) corners += static_cast<std::size_t>(size);
  const auto first = parsed.polygons.corners.begin() + static_cast<std::ptrdiff_t>(corner);
  own.corners.assign(first, first + static_cast<std::ptrdiff_t>(corners));
  corner += corners;

  std::vector<std::int32_t> used = own.corners;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<Vec3d> positions;
  positions.reserve(used.size());
  for (const std::int32_t index : used)
    positions.push_back(parsed.positions[static_cast<std::size_t>(index)]);
  for (std::int32_t& index : own.corners) {
    index = static_cast<std::int32_t>(std::lower_bound(used.begin(), used.end(), index) - used.begin());
  }
  FileMesh shape;
  shape.mesh.name = parsed.runs[run].name;
  shape.material = parsed.runs[run].material;
  set_positions(shape, std::move(positions));
  add_polygons(shape, own, count);
  return shape;
}

ObjParser parsed_file(std::string_view bytes, const std::string& label, const std::string& stem) {
  ObjParser parser(bytes, label, stem);
  parser.parse();
  if (parser.polygons.sizes.empty()) {
    throw_data(fmt::format("OBJ file '{}' has no faces ({} vertices); give one with surfaces", label,
                           parser.positions.size()));
  }
  return parser;
}

}  // namespace

std::vector<FileMesh> parse_obj(std::string_view bytes, const std::string& label, const std::string& stem,
                                std::vector<std::string>* notes) {
  const ObjParser parser = parsed_file(bytes, label, stem);
  std::vector<FileMesh> shapes;
  PolygonCount count;
  std::size_t corner = 0;
  for (std::size_t run = 0; run < parser.runs.size(); ++run) {
    shapes.push_back(shape_of(parser, run, corner, count));
  }
  count.note(fmt::format("OBJ file '{}'", label), notes);
  parser.note(notes);
  return shapes;
}

FileMesh parse_obj_joined(std::string_view bytes, const std::string& label, std::vector<std::string>* notes) {
  const std::string no_name;
  ObjParser parser = parsed_file(bytes, label, no_name);
  FileMesh shape;
  PolygonCount count;
  set_positions(shape, std::move(parser.positions));
  add_polygons(shape, parser.polygons, count);
  count.note(fmt::format("OBJ file '{}'", label), notes);
  parser.note(notes);
  return shape;
}

}  // namespace shardwise
