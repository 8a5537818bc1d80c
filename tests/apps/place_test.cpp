// Heights over roof and ground, what cells see, and the warnings of where things stand.

#include "place.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cell_census.hpp"
#include "coverage_warnings.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/city.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise::program {
namespace {

namespace fs = std::filesystem;

void add_quad(Mesh& mesh, Vec3f a, Vec3f b, Vec3f c, Vec3f d) {
  const auto first = static_cast<std::int32_t>(mesh.vertices.size());
  mesh.vertices.insert(mesh.vertices.end(), {a, b, c, d});
  mesh.faces.push_back({first, first + 1, first + 2});
  mesh.faces.push_back({first, first + 2, first + 3});
}

/// A closed house of 10 x 10 x 8 m on a ground that rises by `rise` from x = -50 to x = 50.
SceneModel house(float rise = 0) {
  SceneModel model;
  Mesh ground, walls;
  ground.name = "ground";
  walls.name = "house";
  ground.material = walls.material = model.add_material(make_itu_material("wall", "concrete"));
  add_quad(ground, {-50, -40, 0}, {50, -40, rise}, {50, 40, rise}, {-50, 40, 0});
  const Vec3f low{0, 0, -1}, high{10, 10, 8};
  const auto corner = [&](int k) {
    return Vec3f{(k & 1) != 0 ? high.x : low.x, (k & 2) != 0 ? high.y : low.y, (k & 4) != 0 ? high.z : low.z};
  };
  for (const auto& q :
       {std::array{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}})
    add_quad(walls, corner(q[0]), corner(q[1]), corner(q[2]), corner(q[3]));
  model.add_mesh(ground);
  model.add_mesh(walls);
  model.build();
  return model;
}

CoverageRequest request_at(const Vec3d& position, double height = 1.5) {
  CoverageRequest request;
  request.options.transmitters = {{position}};
  request.options.grid = {2, height, -50, 50, -40, 40, 25, 20};
  request.position = height;
  return request;
}

std::vector<std::string> warnings_at(const SceneModel& model, const Vec3d& position, double height = 1.5) {
  const Surfaces surfaces(model);
  return place_warnings(request_at(position, height), model, surfaces);
}

void expect_usage(const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Place, HeightsAreRead) {
  EXPECT_EQ(parse_height("--height", "-2.5").metres, -2.5);
  const Height roof = parse_height("--tx", "roof+3"), ground = parse_height("--tx", "ground-0.5"),
               bare = parse_height("--tx", "roof");
  EXPECT_EQ(roof.above, Height::Above::roof);
  EXPECT_EQ(roof.metres, 3);
  EXPECT_EQ(ground.above, Height::Above::ground);
  EXPECT_EQ(ground.metres, -0.5);
  EXPECT_EQ(bare.metres, 0);
  for (const char* text : {"roof3", "roof+", "ground+x", "groundwater+1", "roof+nan", "attic+1", "+", ""})
    expect_usage("--tx", [&] { parse_height("--tx", text); });
  const Site site = parse_site("--tx", "1,-2,ground+1.5");
  EXPECT_EQ(site.x, 1);
  EXPECT_EQ(site.y, -2);
  EXPECT_EQ(site.z.metres, 1.5);
  for (const char* text :
       {"1,2", "1,roof+3", "roof+3", "1,2,3,roof+1", "roof,1,2", "1,2,roof+3,4", "x,2,roof+3"})
    expect_usage("--tx", [&] { parse_site("--tx", text); });
}

TEST(Place, RoofAndGround) {
  const SceneModel model = house();
  const Surfaces surfaces(model);
  const auto z = [&](const char* text) { return place_site("--tx", parse_site("--tx", text), surfaces).z; };
  EXPECT_DOUBLE_EQ(z("5,4,roof+3"), 11);
  EXPECT_DOUBLE_EQ(z("5,4,ground+1.5"), 0.5);  // the house's floor is the lowest surface there
  EXPECT_DOUBLE_EQ(z("-20,4,roof+3"), 3);
  EXPECT_DOUBLE_EQ(z("-20,4,ground+1.5"), 1.5);
  expect_usage("no roof at (500, 0)", [&] { z("500,0,roof+3"); });
  expect_usage("no ground at (500, 0)", [&] { z("500,0,ground+3"); });
}

TEST(Place, MapsOverTheGroundWantItFlat) {
  const Area all{-50, -40, 50, 40}, beside{-50, -40, -40, 40}, nowhere{60, 60, 70, 70};
  const Height height = parse_height("--height", "ground+1.5");
  {
    const SceneModel model = house(0.45f);
    const Surfaces surfaces(model);
    EXPECT_NEAR(place_map("--height", height, beside, surfaces), 0.045 + 1.5, 1e-3);
    expect_usage("not flat to 0.5 m",
                 [&] { place_map("--height", height, all, surfaces); });  // the floor at -1
  }
  const SceneModel model = house(6);
  const Surfaces surfaces(model);
  expect_usage("from z = -1.00 m to z = 5.9", [&] { place_map("--height", height, all, surfaces); });
  expect_usage("no ground under", [&] { place_map("--height", height, nowhere, surfaces); });
  expect_usage("roofs", [&] { place_map("--height", parse_height("--height", "roof+2"), all, surfaces); });
  EXPECT_EQ(place_map("--height", parse_height("--height", "4"), all, surfaces), 4);
}

TEST(PlaceWarnings, SurfacesSolidsAndMaps) {
  const SceneModel model = house();
  EXPECT_TRUE(warnings_at(model, {-20, 3, 10}).empty());
  EXPECT_TRUE(warnings_at(model, {5.2, 4.1, 10.1}).empty());  // 2.1 m over the roof
  const auto near = warnings_at(model, {5.2, 4.1, 9.5});
  ASSERT_EQ(near.size(), 1u);
  EXPECT_NE(near[0].find("1.50 m below it: shape 'house' at z = 8.00"), std::string::npos) << near[0];
  const auto inside = warnings_at(model, {5.2, 4.1, 4.7});
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_NE(inside[0].find("inside a solid: shape 'house' is 3.30 m above it"), std::string::npos)
      << inside[0];
  const auto outside = warnings_at(model, {70, 0, 10});
  ASSERT_EQ(outside.size(), 1u);
  EXPECT_NE(outside[0].find("outside the map's area"), std::string::npos);
  EXPECT_TRUE(warnings_at(model, {-20, 3, 10}, -0.5).empty());  // over the house's floor
  const auto under = warnings_at(model, {-20, 3, 10}, -1.5);
  ASSERT_EQ(under.size(), 1u);
  EXPECT_NE(under[0].find("under every surface: the ground is between z = -1.00 m and z = 0.00 m"),
            std::string::npos)
      << under[0];
}

TEST(PlaceWarnings, ThinCellsNameWhatMends) {
  const CoverageRequest request = [] {
    CoverageRequest r = request_at({0, 0, 20});
    r.options.samples = 1'000'000;
    r.cell = 4;
    return r;
  }();
  CoverageResult result;
  result.gain.assign(500, 1e-9);
  result.crossings.assign(500, 40);
  CoverageReport report;
  report.request = &request;
  report.result = &result;
  report.census.open = 480;
  report.open_reached = {480};
  const auto warnings = [&] {
    report.reached = report.under_16 = 0;
    summarize(report);
    return result_warnings(report);
  };
  std::fill_n(result.crossings.begin(), 25, 4);  // exactly 5 %
  EXPECT_TRUE(warnings().empty());
  std::fill_n(result.crossings.begin(), 26, 4);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("26 of 500 reached cells (5 %)"), std::string::npos) << warnings()[0];
  EXPECT_NE(warnings()[0].find("--samples 4M (now 1M per transmitter) or --cell 8 (now 4)"),
            std::string::npos)
      << warnings()[0];
  std::fill_n(result.crossings.begin(), 26, 40);
  report.open_reached = {24};  // exactly 5 % of 480
  EXPECT_TRUE(warnings().empty());
  report.open_reached = {23};
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("reaches 23 of 480 open cells (4.8 %)"), std::string::npos) << warnings()[0];
}

// ---- against a count over all triangles, in double (T. Moeller, B. Trumbore, J. Graphics Tools 2(1), 1997)

struct Segment3 {
  Vec3d from, way;
  double begin, end;  ///< in units of `way`
};

bool meets(const SceneGeometry& g, const Segment3& segment) {
  for (std::size_t f = 0; f < g.faces.size(); ++f) {
    if (!g.hittable[f]) continue;
    const auto corner = [&](std::size_t k) {
      return to_double(g.vertices[static_cast<std::size_t>(g.faces[f][k])]);
    };
    const Vec3d e1 = corner(1) - corner(0), e2 = corner(2) - corner(0), p = cross(segment.way, e2);
    const double determinant = dot(e1, p);
    if (determinant == 0) continue;
    const Vec3d s = segment.from - corner(0), q = cross(s, e1);
    const double u = dot(s, p) / determinant, v = dot(segment.way, q) / determinant,
                 t = dot(e2, q) / determinant;
    if (u >= 0 && v >= 0 && u + v <= 1 && t > segment.begin && t < segment.end) return true;
  }
  return false;
}

void expect_census_of_all_triangles(const SceneModel& model, const CoverageGrid& grid,
                                    const std::vector<Transmitter>& transmitters) {
  const Surfaces surfaces(model);
  const std::atomic<bool> go_on{false};
  const CellCensus census = count_cells(surfaces, grid, transmitters, go_on);
  std::int64_t open = 0, seen = 0;
  std::vector<std::int64_t> open_seen(transmitters.size());
  for (std::int64_t row = 0; row < grid.resolution1; ++row)
    for (std::int64_t column = 0; column < grid.resolution0; ++column) {
      const Vec3d c{grid.min0 + (static_cast<double>(column) + 0.5) * (grid.max0 - grid.min0) /
                                    static_cast<double>(grid.resolution0),
                    grid.min1 + (static_cast<double>(row) + 0.5) * (grid.max1 - grid.min1) /
                                    static_cast<double>(grid.resolution1),
                    grid.position};
      const bool is_open = !meets(model.geometry(), {c, {0, 0, 1}, 1e-6, 1e30});
      EXPECT_EQ(census.is_open[static_cast<std::size_t>(row * grid.resolution0 + column)], is_open)
          << column << ", " << row;
      open += is_open;
      bool any = false;
      for (std::size_t t = 0; t < transmitters.size(); ++t) {
        if (meets(model.geometry(), {c, transmitters[t].position - c, 1e-9, 1 - 1e-9})) continue;
        any = true;
        open_seen[t] += is_open;
      }
      seen += any;
    }
  EXPECT_EQ(census.open, open);
  EXPECT_EQ(census.line_of_sight, seen);
  EXPECT_EQ(census.open_seen, open_seen);
  EXPECT_GT(seen, 0);
  EXPECT_LT(seen, grid.cell_count());
  EXPECT_LT(open, grid.cell_count());
}

TEST(CellCensus, IsThatOfAllTriangles) {
  expect_census_of_all_triangles(house(), {2, 1.5, -50, 50, -40, 40, 50, 40},
                                 {{{-20.3, 3.1, 10}}, {{30, 21, 6.2}}});
  const fs::path folder = fs::temp_directory_path() / ("shardwise-census-" + std::to_string(getpid()));
  CityOptions city;
  city.blocks_x = city.blocks_y = 2;
  const SceneModel model = read_scene(write_city(folder, city).scene_file);
  fs::remove_all(folder);
  expect_census_of_all_triangles(model, {2, 1.5, -103, 103, -101, 99, 60, 60},
                                 {{{0.3, 0.2, 30}}, {{60.1, 40.2, 12}}});
}

class Munich : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path file = fs::path(SHARDWISE_TEST_SCENES) / "munich" / "munich.xml";
    if (!fs::exists(file)) GTEST_SKIP() << "no munich in " << SHARDWISE_TEST_SCENES;
    model_ = std::make_unique<SceneModel>(read_scene(file));
  }
  std::unique_ptr<SceneModel> model_;
};

TEST_F(Munich, CensusIsThatOfAllTriangles) {
  expect_census_of_all_triangles(*model_, {2, 1.5, -300, 200, -200, 300, 25, 25}, {{{8.5, 21, 60}}});
}

TEST_F(Munich, RoofEdgeInsideAndCourtyard) {
  const Surfaces surfaces(*model_);
  const CoverageRequest request = [&] {
    CoverageRequest r = request_at({});
    r.options.grid.min0 = r.options.grid.min1 = -800, r.options.grid.max0 = r.options.grid.max1 = 800;
    return r;
  }();
  const auto warnings = [&](const Vec3d& position) {
    CoverageRequest here = request;
    here.options.transmitters = {{position}};
    return place_warnings(here, *model_, surfaces);
  };
  // The town hall's roof, from a point on it to where it ends.
  double y = 21;
  while (surfaces.roof(8.5, y)->z > 20) y += 0.05;
  const double roof = surfaces.roof(8.5, y - 0.05)->z;
  ASSERT_GT(y, 21);
  ASSERT_LT(y, 60);
  const auto edge = warnings({8.5, y - 0.05, roof + 1});
  ASSERT_EQ(edge.size(), 1u) << "on the roof's edge";
  EXPECT_NE(edge[0].find("1.00 m below it: shape 'mesh-Neues_Rathaus-itu_metal'"), std::string::npos)
      << edge[0];
  EXPECT_TRUE(warnings({8.5, y + 0.05, roof + 1}).empty()) << "over the square, beside the roof";
  const auto inside = warnings({-150, 60, 30});
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_NE(inside[0].find("inside a solid: shape 'mesh-Frauenkirche-itu_metal' is 25.3"), std::string::npos)
      << inside[0];
  // Walls all around, sky above.
  EXPECT_TRUE(surfaces.is_open({-260, -260, 10}));
  EXPECT_TRUE(warnings({-260, -260, 10}).empty());
  EXPECT_TRUE(surfaces.is_blocked({-260, -260, 10}, {-200, -260, 10}));
}

}  // namespace
}  // namespace shardwise::program
