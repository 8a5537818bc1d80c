// The table of operations is what the operations are, in both directions: every entry exists with these bytes
// a row, and every operation that headers declare is in the table.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "dispatch/row_plan.hpp"
#include "rays/camera_operations.hpp"
#include "rays/intersect_operation.hpp"
#include "rays/nearest_edge_operation.hpp"
#include "rays/penetration_operation.hpp"
#include "rays/reflections_operation.hpp"
#include "rays/visible_operations.hpp"
#include "row_batch.hpp"
#include "shardwise/dispatch/operation_table.hpp"
#include "shardwise/rays/camera.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::test {
namespace {

namespace fs = std::filesystem;

struct Factory {
  std::string name;  ///< of the function
  std::function<RowOperation(Scene&)> make;
};

int number(const std::string& shape) {
  return std::stoi(shape);
}

/// How an entry of a family is made: the shape, every other field as callers get it, no optional input.
Factory factory_of(const OperationEntry& entry) {
  const std::string family = entry.family, shape = entry.shape;
  if (family == "intersect")
    return {"intersect_operation", [=](Scene& scene) {
              const auto fields = shape == "full" ? IntersectOptions{}.fields : IntersectFields::none;
              return intersect_operation(scene, {fields, false, false});
            }};
  if (family == "nearest_edge" && shape == "point")
    return {"nearest_edge_of_point_operation",
            [](Scene& scene) { return nearest_edge_of_point_operation(scene, false); }};
  if (family == "nearest_edge" && shape == "ray")
    return {"nearest_edge_of_ray_operation",
            [](Scene& scene) { return nearest_edge_of_ray_operation(scene, false, false); }};
  if (family == "nearest_edges")
    return {"nearest_edges_operation", [=](Scene& scene) {
              return nearest_edges_operation(scene, {number(shape), false}, false);
            }};
  if (family == "visible")
    return {"visible_operation", [](Scene& scene) { return visible_operation(scene, {}); }};
  if (family == "visible_pair")
    return {"visible_pair_operation", [](Scene& scene) { return visible_pair_operation(scene, {}); }};
  if (family == "visible_edge")
    return {"visible_edge_operation", [](Scene& scene) { return visible_edge_operation(scene, {}); }};
  if (family == "visible_chain")
    return {"visible_chain_operation", [=](Scene& scene) {
              VisibleChainRequest request;
              request.points_per_chain = number(shape);
              request.chain_length = false;
              return visible_chain_operation(scene, request);
            }};
  if (family == "trace_reflections")
    return {"reflections_operation", [=](Scene& scene) {
              return reflections_operation(scene, {number(shape), ReflectionOptions{}.fields, false, false});
            }};
  if (family == "segment_penetration")
    return {"penetration_operation", [=](Scene& scene) {
              return penetration_operation(scene, {number(shape), PenetrationOptions{}.fields, false});
            }};
  if (family == "sample_ray")
    return {"sample_ray_operation", [](Scene&) { return sample_ray_operation(Camera{}); }};
  if (family == "sample_to_world")
    return {"sample_to_world_operation", [](Scene&) { return sample_to_world_operation(Camera{}); }};
  if (family == "world_to_sample")
    return {"world_to_sample_operation", [](Scene&) { return world_to_sample_operation(Camera{}); }};
  return {};
}

/// What `pattern` captures in the headers of a folder of the project.
std::set<std::string> declared(const std::string& folder, const std::string& pattern) {
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(fs::path(SHARDWISE_SOURCE_DIR) / folder)) {
    if (file.path().extension() != ".hpp") continue;
    std::ifstream stream(file.path());
    std::stringstream text;
    text << stream.rdbuf();
    const std::string all = text.str();
    const std::regex regex(pattern);
    for (std::sregex_iterator it(all.begin(), all.end(), regex), end; it != end; ++it) names.insert((*it)[1]);
  }
  return names;
}

TEST(OperationTable, EveryEntryIsAnOperationWithTheseBytes) {
  Scene scene(open_devices("host:1x1"), test_model());
  scene.build();
  int rows = 0;
  for (const OperationEntry& entry : operation_table()) {
    if (entry.operation_class != OperationClass::rows) continue;
    const std::string name = entry.family + (*entry.shape ? std::string(":") + entry.shape : std::string());
    SCOPED_TRACE(name);
    const Factory factory = factory_of(entry);
    ASSERT_TRUE(factory.make) << "nothing makes this entry";
    const RowOperation operation = factory.make(scene);
    ++rows;
    EXPECT_EQ(operation.family, entry.family);
    // visible_edge has a name by its number of fractions, which moves no bytes.
    EXPECT_TRUE(operation.name == name || operation.name.rfind(name + ":", 0) == 0) << operation.name;
    EXPECT_EQ(row_bytes(operation.inputs), entry.bytes_in);
    EXPECT_EQ(row_bytes(operation.outputs), entry.bytes_out);
    EXPECT_EQ(find_operation(name), &entry);
    EXPECT_NE(find_operation(operation.name), nullptr);
  }
  EXPECT_GT(rows, 10);
}

TEST(OperationTable, EveryOperationIsInIt) {
  // The factories of the rays layer.
  std::set<std::string> made;
  for (const OperationEntry& entry : operation_table()) made.insert(factory_of(entry).name);
  const std::set<std::string> factories = declared("src/rays", R"(\nRowOperation (\w+_operation)\()");
  EXPECT_GE(factories.size(), 13u) << "the headers were not read";
  for (const std::string& factory : factories)
    EXPECT_TRUE(made.contains(factory)) << factory << " makes no entry of the table";

  // What users call, of rows and of lanes.
  std::set<std::string> families;
  for (const std::string folder : {"include/shardwise/rays", "include/shardwise/radio"})
    for (std::string name : declared(folder, R"(\nPending<\w+>\s+(\w+)\(Scene& scene)")) {
      name = std::regex_replace(name, std::regex("_of_(points|rays)$"), "");
      EXPECT_NE(find_operation(name), nullptr) << name << "() is not in the table";
      families.insert(name);
    }
  for (const OperationEntry& entry : operation_table())
    EXPECT_TRUE(families.contains(entry.family)) << "no public header declares " << entry.family << "()";
}

TEST(OperationTable, PlatformsAndSinksAreThoseThatExist) {
  std::string sinks, platforms;
  for (const SinkKind kind :
       {SinkKind::to_master, SinkKind::to_host, SinkKind::resident, SinkKind::offload, SinkKind::reduce})
    sinks += std::string(sinks.empty() ? "" : ", ") + to_string(kind);
  for (const PlatformKind kind : {PlatformKind::host, PlatformKind::cuda, PlatformKind::sim})
    platforms += std::string(platforms.empty() ? "" : ", ") + to_string(kind);
  for (const OperationEntry& entry : operation_table()) {
    EXPECT_EQ(entry.platforms, platforms) << entry.family;
    // Lanes are sums, and go to the host.
    EXPECT_EQ(entry.sinks, entry.operation_class == OperationClass::rows ? sinks : "to_host") << entry.family;
    EXPECT_EQ(entry.bytes_out > 0, entry.operation_class == OperationClass::rows) << entry.family;
  }
}

TEST(OperationTable, NamesAreFoundByShapeThenByFamily) {
  EXPECT_STREQ(find_operation("intersect:full")->shape, "full");
  EXPECT_STREQ(find_operation("intersect")->family, "intersect");
  EXPECT_STREQ(find_operation("trace_reflections:7")->family, "trace_reflections");
  EXPECT_EQ(find_operation("trace"), nullptr);
  EXPECT_EQ(find_operation(""), nullptr);
  try {
    require_operation("visble", "weights");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    EXPECT_STREQ(error.what(), "weights: there is no operation 'visble'; did you mean 'visible'?");
  }
}

}  // namespace
}  // namespace shardwise::test
