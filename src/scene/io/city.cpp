// Layout: square blocks between streets, avenues among them. A block is cut into lots; the lots along its rim
// carry a building each, its middle is a yard. Heights and materials follow the distance from the centre.

#include "shardwise/scene/city.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "city_buildings.hpp"
#include "scene/file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace city {
namespace {

void look_for_cancel(const CityOptions& options) {
  if (options.cancel && options.cancel->load())
    throw Error(ErrorClass::interrupted, "city: cancelled; the folder is not whole");
}

constexpr double kFloor = 3.2;       // metres a storey
constexpr double kSidewalk = 3;      // metres between a street and a building
constexpr double kSmallestLot = 19;  // metres

/// The finaliser of splitmix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014) as a hash.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Random numbers by counter: every block and every lot has a stream of its own, so that changing one changes
/// no other.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t a, std::uint64_t b) : key_(mix(mix(mix(seed) ^ a) ^ b)) {}
  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(mix(key_ ^ mix(counter_++)) >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  bool chance(double probability) { return uniform() < probability; }
  int index(int count) { return static_cast<int>(uniform() * count); }

 private:
  std::uint64_t key_, counter_ = 0;
};

/// Whole centimetres: nobody surveys a city finer.
double centimetres(double metres) {
  return std::floor(metres * 100 + 0.5) / 100;
}

struct CityMaterial {
  const char* name;
  double thickness;
};
constexpr CityMaterial kMaterials[] = {{"concrete", 0.3}, {"brick", 0.24}, {"glass", 0.02},
                                       {"marble", 0.2},   {"metal", 0.01}, {"medium_dry_ground", 1.0}};

struct Shape {
  Mesh mesh;
  std::string material;
};

/// Starts and widths of the streets along one axis, centred on 0; street i lies before block i, the last one
/// after all.
struct Streets {
  std::vector<double> begin, end;
};

Streets lay_streets(int blocks, const CityOptions& options) {
  Streets streets;
  double at = 0;
  for (int i = 0; i <= blocks; ++i) {
    const bool avenue = i > 0 && i < blocks && (i % 4 == 0 || i == blocks / 2);
    streets.begin.push_back(at);
    streets.end.push_back(at += avenue ? options.avenue_m : options.street_m);
    if (i < blocks) at += options.block_m;
  }
  for (auto* values : {&streets.begin, &streets.end}) {
    for (double& value : *values) value = centimetres(value - at / 2);
  }
  return streets;
}

void cut_into_lots(const Rect& rect, Random& random, std::vector<Rect>& lots) {
  const bool along_x = rect.width() >= rect.depth();
  const double side = along_x ? rect.width() : rect.depth();
  if (side < 2 * kSmallestLot || (side < 2.4 * kSmallestLot && random.chance(0.25))) {
    lots.push_back(rect);
    return;
  }
  const double cut = centimetres(side * random.between(0.42, 0.58));
  Rect first = rect, second = rect;
  if (along_x) {
    first.x1 = second.x0 = rect.x0 + cut;
  } else {
    first.y1 = second.y0 = rect.y0 + cut;
  }
  cut_into_lots(first, random, lots);
  cut_into_lots(second, random, lots);
}

/// "centre" runs from 0 at the rim of the city to 1 in its middle.
std::vector<Shape> make_building(const Rect& lot, double centre, const std::string& name, Random& random,
                                 CityReport& report) {
  Rect rect = lot.inset(random.between(0.8, 3.2));
  rect = {centimetres(rect.x0), centimetres(rect.y0), centimetres(rect.x1), centimetres(rect.y1)};
  const double draw = random.uniform();
  int floors = 2 + static_cast<int>(3 * random.uniform() + 5 * centre * draw);
  const bool tower = random.chance(0.35 * centre * centre);
  if (tower) floors += 6 + static_cast<int>(18 * centre * random.uniform());
  const double height = centimetres(floors * kFloor + random.between(0.2, 1.2));
  const double longest = std::max(rect.width(), rect.depth()),
               shortest = std::min(rect.width(), rect.depth());

  enum class Form { box, turned, l_shape, gabled, podium } form = Form::box;
  const double kind = random.uniform();
  if (tower) {
    form = kind < 0.7 ? Form::podium : Form::box;
  } else if (floors <= 5 && kind < 0.4 && longest > 1.15 * shortest) {
    form = Form::gabled;
  } else if (kind < 0.62 && shortest > 15) {
    form = Form::l_shape;
  } else if (kind > 0.88) {
    form = Form::turned;
  }

  const double pick = random.uniform();
  std::string material = pick < 0.5 ? "brick" : pick < 0.85 ? "concrete" : "marble";
  if (tower) {
    material = pick < 0.65 ? "glass" : pick < 0.9 ? "concrete" : "marble";
  } else if (centre > 0.55) {
    material = pick < 0.3 ? "glass" : pick < 0.6 ? "concrete" : pick < 0.85 ? "brick" : "marble";
  }
  const bool metal_roof =
      form == Form::gabled ? random.chance(0.4) : form != Form::podium && random.chance(0.15);

  Shape walls{{}, material}, roof{{}, "metal"};
  Mesh& top = metal_roof ? roof.mesh : walls.mesh;
  double highest = height;
  switch (form) {
    case Form::box:
      add_prism(corners_of(rect), 0, height, walls.mesh, top);
      break;
    case Form::turned:
      add_prism(rotated_in(rect, random.between(-0.07, 0.07)), 0, height, walls.mesh, top);
      break;
    case Form::l_shape: {
      const double cut_x = centimetres(rect.x0 + rect.width() * random.between(0.42, 0.58));
      const double cut_y = centimetres(rect.y0 + rect.depth() * random.between(0.42, 0.58));
      add_prism(l_shape(rect, cut_x, cut_y, random.index(4)), 0, height, walls.mesh, top);
      break;
    }
    case Form::gabled:
      highest = centimetres(height + shortest * random.between(0.28, 0.45));
      add_gabled(corners_of(rect), height, highest, walls.mesh, top);
      break;
    case Form::podium: {
      const double podium = centimetres(kFloor * (2 + random.index(2)) + 0.5);
      add_prism(corners_of(rect), 0, podium, walls.mesh, walls.mesh);
      add_prism(corners_of(rect.inset(centimetres(shortest * random.between(0.12, 0.22)))), podium, height,
                walls.mesh, walls.mesh);
      break;
    }
  }
  ++report.buildings;
  report.highest_m = std::max(report.highest_m, highest);
  walls.mesh.name = name;
  std::vector<Shape> shapes{std::move(walls)};
  if (metal_roof) {
    roof.mesh.name = name + "-roof";
    shapes.push_back(std::move(roof));
  }
  return shapes;
}

bool on_rim(const Rect& lot, const Rect& block) {
  return lot.x0 == block.x0 || lot.y0 == block.y0 || lot.x1 == block.x1 || lot.y1 == block.y1;
}

std::vector<Shape> make_city(const CityOptions& options, CityReport& report) {
  const Streets across = lay_streets(options.blocks_x, options),
                along = lay_streets(options.blocks_y, options);
  report.size_x_m = across.end.back() - across.begin.front();
  report.size_y_m = along.end.back() - along.begin.front();

  // Ground: tiles that meet along whole sides, streets of concrete and blocks of earth, nowhere on top of
  // each other.
  Shape paving{{}, "concrete"}, earth{{}, "medium_dry_ground"};
  paving.mesh.name = "streets";
  earth.mesh.name = "yards";
  std::vector<double> xs, ys;
  for (std::size_t i = 0; i < across.begin.size(); ++i) xs.insert(xs.end(), {across.begin[i], across.end[i]});
  for (std::size_t i = 0; i < along.begin.size(); ++i) ys.insert(ys.end(), {along.begin[i], along.end[i]});
  for (std::size_t j = 0; j + 1 < ys.size(); ++j) {
    for (std::size_t i = 0; i + 1 < xs.size(); ++i) {
      const bool block = i % 2 == 1 && j % 2 == 1;
      add_ground({xs[i], ys[j], xs[i + 1], ys[j + 1]}, block ? earth.mesh : paving.mesh);
    }
  }
  std::vector<Shape> shapes{std::move(paving), std::move(earth)};

  for (int j = 0; j < options.blocks_y; ++j) {
    look_for_cancel(options);
    for (int i = 0; i < options.blocks_x; ++i) {
      const auto x = static_cast<std::size_t>(i), y = static_cast<std::size_t>(j);
      const auto block_number =
          static_cast<std::uint64_t>(j) * static_cast<std::uint64_t>(options.blocks_x) + x;
      Random random(options.seed, block_number, 0);
      if (random.chance(0.06)) continue;  // a park
      const Rect block{across.end[x], along.end[y], across.begin[x + 1], along.begin[y + 1]};
      const Rect built = block.inset(kSidewalk);
      const double u = (block.x0 + block.x1) / report.size_x_m, v = (block.y0 + block.y1) / report.size_y_m;
      const double centre = 1 - std::min(1.0, std::sqrt(u * u + v * v) / 1.2);
      std::vector<Rect> lots;
      cut_into_lots(built, random, lots);
      for (std::size_t k = 0; k < lots.size(); ++k) {
        Random own(options.seed, block_number, k + 1);
        if (!on_rim(lots[k], built) || own.chance(0.04)) continue;  // a yard
        const std::string name = fmt::format("building_{:04}", report.buildings + 1);
        for (Shape& shape : make_building(lots[k], centre, name, own, report))
          shapes.push_back(std::move(shape));
      }
    }
  }
  return shapes;
}

void check(const CityOptions& options) {
  const auto require = [](const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
      throw_usage(fmt::format("city: {} must be in [{}, {}] (got {})", name, low, high, value));
    }
  };
  require("blocks_x", options.blocks_x, 1, 200);
  require("blocks_y", options.blocks_y, 1, 200);
  require("block_m", options.block_m, 40, 400);
  require("street_m", options.street_m, 4, 100);
  require("avenue_m", options.avenue_m, options.street_m, 200);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw_usage(fmt::format("folder '{}' cannot be made: {}; its parent must be a writable folder",
                            folder.string(), error ? error.message() : "a file of this name is there"));
  }
}

std::string scene_text(const std::vector<Shape>& shapes, const CityOptions& options) {
  std::string text = "<scene version=\"2.1.0\">\n";
  text += fmt::format("    <!-- A procedural city: {} x {} blocks, seed {}. z is up, metres. -->\n",
                      options.blocks_x, options.blocks_y, options.seed);
  for (const CityMaterial& material : kMaterials) {
    text += fmt::format(
        "    <bsdf type=\"itu-radio-material\" id=\"{0}\">\n        <string name=\"type\" value=\"{0}\"/>\n"
        "        <float name=\"thickness\" value=\"{1}\"/>\n    </bsdf>\n",
        material.name, material.thickness);
  }
  for (const Shape& shape : shapes) {
    text += fmt::format(
        "    <shape type=\"ply\" id=\"{0}\">\n        <string name=\"filename\" value=\"meshes/{0}.ply\"/>\n"
        "        <boolean name=\"face_normals\" value=\"true\"/>\n        <ref id=\"{1}\" name=\"bsdf\"/>\n"
        "    </shape>\n",
        shape.mesh.name, shape.material);
  }
  return text + "</scene>\n";
}

}  // namespace
}  // namespace city

CityReport write_city(const std::filesystem::path& directory, const CityOptions& options) {
  city::check(options);
  city::make_folder(directory);
  city::make_folder(directory / "meshes");
  CityReport report;
  const auto shapes = city::make_city(options, report);
  for (const city::Shape& shape : shapes) {
    city::look_for_cancel(options);
    write_ply(directory / "meshes" / (shape.mesh.name + ".ply"), shape.mesh);
    ++report.shapes;
    report.triangles += static_cast<std::int64_t>(shape.mesh.faces.size());
  }
  report.scene_file = directory / "city.xml";
  write_whole_file(report.scene_file, city::scene_text(shapes, options));
  return report;
}

}  // namespace shardwise
