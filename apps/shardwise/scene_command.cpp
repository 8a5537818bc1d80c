// shardwise scene: what is in a scene file, scenes in one file, generated cities.

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "command.hpp"
#include "output_file.hpp"
#include "progress.hpp"
#include "report_file.hpp"
#include "scene_city.hpp"
#include "scene_options.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/describe.hpp"
#include "shardwise/scene/scene_io.hpp"
#include "table.hpp"
#include "version.hpp"

namespace shardwise::program {
namespace {

struct Options {
  std::string file, output, json;
  SceneFileOptions read;
};

const char* to_string(Defect::Kind kind) {
  switch (kind) {
    case Defect::Kind::non_finite_vertex:
      return "non_finite_vertex";
    case Defect::Kind::face_of_non_finite_vertex:
      return "face_of_non_finite_vertex";
    case Defect::Kind::repeated_index:
      return "repeated_index";
    case Defect::Kind::zero_area:
      return "zero_area";
  }
  return "unknown";
}

/// In the file's coordinates.
Json point_json(const Vec3f& p, const Vec3d& shift) {
  return {number_or_null(p.x + shift.x), number_or_null(p.y + shift.y), number_or_null(p.z + shift.z)};
}

std::string material_text(const Material& material) {
  if (material.kind == Material::Kind::itu_class) return "ITU " + material.itu_class;
  return fmt::format("eta_r {:g}, sigma {:g} S/m, mu_r {:g}", material.eta_r, material.sigma, material.mu_r);
}

Json edges_json(const EdgeDescription& edges) {
  return {{"count", edges.edges},
          {"boundary", edges.boundary_edges},
          {"non_manifold", edges.non_manifold_edges},
          {"inconsistent_winding", edges.inconsistent_edges},
          {"wedges", edges.wedges},
          {"convex", edges.convex},
          {"concave", edges.concave},
          {"coplanar", edges.coplanar},
          {"half_planes", edges.half_planes},
          {"wall_feet", edges.wall_feet},
          {"closed_components", edges.closed_components},
          {"oriented_components", edges.oriented_components},
          {"near_coincident_vertices", edges.near_coincident_vertices}};
}

std::string edges_text(const EdgeDescription& edges) {
  std::string text =
      fmt::format("\nedges: {}, {} of them with one face\n", edges.edges, edges.boundary_edges);
  text += fmt::format(
      "  wedges: {} ({} convex, {} half-planes); no wedges: {} concave, {} coplanar, {} feet of walls\n",
      edges.wedges, edges.convex, edges.half_planes, edges.concave, edges.coplanar, edges.wall_feet);
  text += fmt::format("  closed components: {}, {} of them taken as wound the other way\n",
                      edges.closed_components, edges.oriented_components);
  if (edges.non_manifold_edges > 0)
    text += fmt::format("  places where three or more faces meet: {}\n", edges.non_manifold_edges);
  if (edges.inconsistent_edges > 0)
    text += fmt::format("  edges whose faces are wound against each other: {}\n", edges.inconsistent_edges);
  if (edges.near_coincident_vertices > 0)
    text += fmt::format("  vertices that nearly coincide and are not joined: {}\n",
                        edges.near_coincident_vertices);
  return text;
}

Json info_json(const Options& options, const SceneModel& model, const EdgeDescription& edges,
               const std::vector<std::string>& remarks) {
  const SceneGeometry& geometry = model.geometry();
  const SceneDescription description = describe(model);
  Json materials = Json::array();
  for (std::size_t i = 0; i < model.materials().size(); ++i) {
    const Material& material = model.materials()[i];
    const bool itu = material.kind == Material::Kind::itu_class;
    materials.push_back({{"name", material.name},
                         {"itu_class", itu ? Json(material.itu_class) : Json(nullptr)},
                         {"eta_r", itu ? Json(nullptr) : Json(material.eta_r)},
                         {"sigma", itu ? Json(nullptr) : number_or_null(material.sigma)},
                         {"mu_r", itu ? Json(nullptr) : Json(material.mu_r)},
                         {"thickness_m", material.thickness},
                         {"shapes", description.materials[i].shapes},
                         {"triangles", description.materials[i].faces}});
  }
  Json shapes = Json::array();
  for (std::int32_t i = 0; i < model.num_meshes(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::int32_t material = model.mesh(i).material;
    shapes.push_back(
        {{"id", i},
         {"name", model.shape_name(i)},
         {"triangles", geometry.face_offset[k + 1] - geometry.face_offset[k]},
         {"material",
          material < 0 ? Json(nullptr) : Json(model.materials()[static_cast<std::size_t>(material)].name)},
         {"instance_of", model.is_instance(i) ? Json(model.owner_of(i)) : Json(nullptr)}});
  }
  Json defects = Json::array();
  for (const Defect& defect : geometry.defects) {
    defects.push_back({{"kind", to_string(defect.kind)},
                       {"shape_id", defect.shape_id},
                       {"shape", model.shape_name(defect.shape_id)},
                       {"index", defect.index}});
  }
  const bool empty = geometry.bounds.empty();
  const Vec3d shift = model.origin_shift();
  return {{"schema", 1},
          {"command", "scene info"},
          {"version", build_facts().version + " " + build_facts().commit},
          {"file", options.file},
          {"triangles", geometry.faces.size()},
          {"vertices", description.vertices},
          {"instances", description.instances},
          {"dropped", description.dropped},
          {"bounds", empty ? Json(nullptr)
                           : Json{{"low", point_json(geometry.bounds.low, shift)},
                                  {"high", point_json(geometry.bounds.high, shift)}}},
          {"origin_shift", {shift.x, shift.y}},
          {"materials", materials},
          {"edges", edges_json(edges)},
          {"shapes", shapes},
          {"without_material", description.without_material.shapes},
          {"defects", defects},
          {"remarks", remarks}};
}

std::string info_text(const Options& options, const SceneModel& model, const EdgeDescription& edges,
                      const std::vector<std::string>& remarks) {
  const SceneGeometry& geometry = model.geometry();
  const Bounds& bounds = geometry.bounds;
  const SceneDescription description = describe(model);
  const Vec3d shift = model.origin_shift();
  std::string text = fmt::format("{}: {} shapes, {} triangles, {} vertices\n", options.file,
                                 model.num_meshes(), geometry.faces.size(), geometry.vertices.size());
  text += bounds.empty() ? "bounds: none, nothing can be hit\n"
                         : fmt::format("bounds: ({:.2f}, {:.2f}, {:.2f}) to ({:.2f}, {:.2f}, {:.2f}) m\n",
                                       bounds.low.x + shift.x, bounds.low.y + shift.y, bounds.low.z,
                                       bounds.high.x + shift.x, bounds.high.y + shift.y, bounds.high.z);
  std::vector<std::vector<std::string>> rows{{"material", "shapes", "triangles", "thickness", "what"}};
  for (std::size_t i = 0; i < model.materials().size(); ++i) {
    const Material& material = model.materials()[i];
    rows.push_back({material.name, fmt::format("{}", description.materials[i].shapes),
                    fmt::format("{}", description.materials[i].faces),
                    fmt::format("{:g} m", material.thickness), material_text(material)});
  }
  if (description.without_material.shapes > 0) {
    rows.push_back({"(none)", fmt::format("{}", description.without_material.shapes),
                    fmt::format("{}", description.without_material.faces), "-", "give --material CLASS"});
  }
  text += "\n" + table_text(rows);
  text += edges_text(edges);
  constexpr std::size_t shown = 20;
  text += fmt::format("\ndefects: {} ({} faces dropped)\n", geometry.defects.size(), description.dropped);
  for (std::size_t i = 0; i < std::min(shown, geometry.defects.size()); ++i) {
    text += "  " + model.describe(geometry.defects[i]) + "\n";
  }
  if (geometry.defects.size() > shown) text += "  ... (--json lists them all)\n";
  if (!remarks.empty()) text += fmt::format("remarks: {}\n", remarks.size());
  for (std::size_t i = 0; i < std::min(shown, remarks.size()); ++i) text += "  " + remarks[i] + "\n";
  if (remarks.size() > shown) text += "  ... (--json lists them all)\n";
  return text;
}

void need_file(const Options& options, const std::string& command) {
  if (options.file.empty()) {
    throw_usage(fmt::format("'{0}' needs a scene file; see 'shardwise {0} --help'", command));
  }
}

int run_info(const Options& options) {
  need_file(options, "scene info");
  if (!options.json.empty()) check_output(options.json, "--json");
  std::vector<std::string> remarks;
  const SceneModel model = load_scene(options.file, options.read, &remarks);
  const EdgeDescription edges = describe_edges(model);
  const Json report = info_json(options, model, edges, remarks);
  OutputSet outputs;
  stage_json(outputs, options.json, report);
  outputs.commit();
  write_stdout(options.json == "-" ? json_text(report) : info_text(options, model, edges, remarks));
  return 0;
}

int run_dump(const Options& options) {
  need_file(options, "scene dump");
  if (options.output.empty()) throw_usage("'scene dump' needs a file to write; give -o OUT.swscene");
  if (!options.output.ends_with(".swscene")) {
    throw_usage(fmt::format("-o: '{}' does not end in .swscene, by which it is read again; add that",
                            options.output));
  }
  check_output(options.output, "-o");
  const SceneModel model = load_scene(options.file, options.read);
  const std::string bytes = format_swscene(model);
  OutputSet outputs;
  outputs.stage(options.output, bytes);
  outputs.commit();
  write_stdout(fmt::format("{}: {} shapes, {} triangles, {} bytes\n", options.output, model.num_meshes(),
                           model.geometry().faces.size(), bytes.size()));
  return 0;
}

}  // namespace

void add_scene(Commands& commands, CLI::App& root) {
  CLI::App* scene = add_command(commands, root, "scene", "Read, convert and generate scenes",
                                "shardwise scene info city/city.xml");
  const auto options = std::make_shared<Options>();
  CLI::App* info =
      add_command(commands, *scene, "info", "Shapes, triangles, bounds, materials, edges, defects",
                  "shardwise scene info city/city.xml --json -");
  info->add_option("file", options->file, kSceneHelp)->type_name("FILE");
  info->add_option("--json", options->json, "Write it as JSON ('-': to standard output, alone)")
      ->type_name("FILE");
  add_scene_options(*info, options->read);
  commands.actions[info] = [options] { return run_info(*options); };

  CLI::App* dump = add_command(commands, *scene, "dump", "Write one file that is read without importers",
                               "shardwise scene dump city/city.xml -o city.swscene");
  dump->add_option("file", options->file, kSceneHelp)->type_name("FILE");
  dump->add_option("-o,--output", options->output, "The file to write")->type_name("OUT.swscene");
  add_scene_options(*dump, options->read);
  commands.actions[dump] = [options] { return run_dump(*options); };

  add_scene_city(commands, *scene);
}

}  // namespace shardwise::program
