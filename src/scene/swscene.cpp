// A scene in one binary file, little-endian:
//
//   offset  0  "SWSCENE" and a zero byte
//           8  u32 schema (2; 1 is read too, it has no shift)
//          12  u32 zero
//          16  u64 bytes of the whole file, the checksum included
//          24  body: origin_shift, 3 doubles; u32 materials, then each material; u32 shapes, then each shape
//          (write_shape)
//     end - 8  u64 FNV-1a over everything before it
//
// A text is u32 bytes and the bytes; an array is u64 items and the items. Instances name their owner and hold
// no arrays. Every float is kept bit for bit.

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <type_traits>

#include "file_util.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/scene/scene_io.hpp"

namespace shardwise {
namespace {

static_assert(std::endian::native == std::endian::little,
              "swscene is written by copying little-endian memory");
static_assert(sizeof(Vec3f) == 12 && sizeof(Vec2f) == 8 && sizeof(Face) == 12);

constexpr char kMagic[8] = {'S', 'W', 'S', 'C', 'E', 'N', 'E', '\0'};
constexpr std::uint32_t kSchema = 2;
constexpr std::size_t kHeaderBytes = 24;

/// Fowler, Noll and Vo, FNV-1a, 64 bits.
std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void text(const std::string& value) {
    put(static_cast<std::uint32_t>(value.size()));
    out += value;
  }
  template <class T>
  void array(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::string out;
};

class Parser {
 public:
  Parser(std::string_view bytes, std::size_t offset, const std::string& label)
      : bytes_(bytes), offset_(offset), label_(label) {}

  template <class T>
  T get(const char* what) {
    T value;
    need(sizeof(T), what);
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }
  std::string text(const char* what) {
    const auto size = get<std::uint32_t>(what);
    need(size, what);
    std::string value(bytes_.substr(offset_, size));
    offset_ += size;
    return value;
  }
  template <class T>
  std::vector<T> array(const char* what) {
    const auto count = get<std::uint64_t>(what);
    if (count > remaining() / sizeof(T)) {
      fail(fmt::format("{} has {} items, more than the {} bytes left can hold", what, count, remaining()));
    }
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes_.data() + offset_, count * sizeof(T));
    offset_ += count * sizeof(T);
    return values;
  }
  std::size_t remaining() const { return bytes_.size() - offset_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw_data(fmt::format("scene file '{}' is damaged, byte {}: {}", label_, offset_, what));
  }

 private:
  void need(std::size_t size, const char* what) const {
    if (remaining() < size) fail(fmt::format("it ends inside {}", what));
  }
  std::string_view bytes_;
  std::size_t offset_;
  const std::string& label_;
};

void write_material(Writer& writer, const Material& material) {
  writer.text(material.name);
  writer.put(static_cast<std::uint8_t>(material.kind));
  writer.text(material.itu_class);
  for (const double value :
       {material.eta_r, material.sigma, material.mu_r, material.thickness, material.gain}) {
    writer.put(value);
  }
  writer.put(static_cast<std::uint32_t>(material.unused.size()));
  for (const auto& [key, value] : material.unused) {
    writer.text(key);
    writer.text(value);
  }
}

Material read_material(Parser& parser) {
  Material material;
  material.name = parser.text("a material's name");
  const auto kind = parser.get<std::uint8_t>("a material's kind");
  if (kind > static_cast<std::uint8_t>(Material::Kind::constants)) {
    parser.fail(fmt::format("material '{}' is of unknown kind {}", material.name, kind));
  }
  material.kind = static_cast<Material::Kind>(kind);
  material.itu_class = parser.text("a material's class");
  for (double* value :
       {&material.eta_r, &material.sigma, &material.mu_r, &material.thickness, &material.gain}) {
    *value = parser.get<double>("a material's constants");
  }
  const auto unused = parser.get<std::uint32_t>("a material's other keys");
  for (std::uint32_t i = 0; i < unused; ++i) {
    std::string key = parser.text("a material's other keys");
    material.unused.emplace_back(std::move(key), parser.text("a material's other keys"));
  }
  return material;
}

enum ShapeFlags : std::uint8_t { kInstance = 1, kDynamic = 2, kFaceNormals = 4, kEdges = 8 };

/// Name, flags, to_world, then the owner's id of an instance, or material and arrays of a mesh.
void write_shape(Writer& writer, const SceneModel& scene, std::int32_t id) {
  const Mesh& mesh = scene.mesh(id);
  const bool instance = scene.is_instance(id);
  writer.text(scene.shape_name(id));
  std::uint8_t flags = 0;
  if (instance) flags |= kInstance;
  if (scene.is_dynamic(id)) flags |= kDynamic;
  if (!instance && mesh.use_face_normals) flags |= kFaceNormals;
  if (!instance && mesh.edges_enabled) flags |= kEdges;
  writer.put(flags);
  writer.put(scene.to_world(id));
  if (instance) {
    writer.put(scene.owner_of(id));
    return;
  }
  writer.put(mesh.material);
  writer.array(mesh.vertices);
  writer.array(mesh.faces);
  writer.array(mesh.uv);
  writer.array(mesh.face_uv);
  writer.array(mesh.vertex_normals);
}

void read_shape(Parser& parser, SceneModel& scene) {
  std::string name = parser.text("a shape's name");
  const auto flags = parser.get<std::uint8_t>("a shape's flags");
  const auto to_world = parser.get<Transform>("a shape's transform");
  if (flags & kInstance) {
    const auto owner = parser.get<std::int32_t>("an instance's owner");
    scene.add_instance(owner, to_world, (flags & kDynamic) != 0, std::move(name));
    return;
  }
  Mesh mesh;
  mesh.name = std::move(name);
  mesh.to_world = to_world;
  mesh.dynamic = (flags & kDynamic) != 0;
  mesh.use_face_normals = (flags & kFaceNormals) != 0;
  mesh.edges_enabled = (flags & kEdges) != 0;
  mesh.material = parser.get<std::int32_t>("a mesh's material");
  mesh.vertices = parser.array<Vec3f>("vertices");
  mesh.faces = parser.array<Face>("faces");
  mesh.uv = parser.array<Vec2f>("uv");
  mesh.face_uv = parser.array<Face>("face_uv");
  mesh.vertex_normals = parser.array<Vec3f>("vertex_normals");
  scene.add_mesh(std::move(mesh));
}

}  // namespace

std::string format_swscene(const SceneModel& scene) {
  if (scene.has_pending_updates())
    throw_state("write_swscene: the scene has pending updates; call sync() first");
  Writer writer;
  writer.out.append(kMagic, sizeof(kMagic));
  writer.put(kSchema);
  writer.put(std::uint32_t{0});
  writer.put(std::uint64_t{0});
  writer.put(scene.origin_shift());
  writer.put(static_cast<std::uint32_t>(scene.materials().size()));
  for (const Material& material : scene.materials()) write_material(writer, material);
  writer.put(static_cast<std::uint32_t>(scene.num_meshes()));
  for (std::int32_t id = 0; id < scene.num_meshes(); ++id) write_shape(writer, scene, id);
  const std::uint64_t size = writer.out.size() + sizeof(std::uint64_t);
  std::memcpy(writer.out.data() + 16, &size, sizeof(size));
  writer.put(fnv1a(writer.out));
  return std::move(writer.out);
}

void write_swscene(const std::filesystem::path& path, const SceneModel& scene) {
  write_whole_file(path, format_swscene(scene));
}

SceneModel parse_swscene(std::string_view bytes, const std::string& label, const SceneModelOptions& options) {
  if (bytes.size() < sizeof(kMagic) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    throw_data(fmt::format("'{}' is not a .swscene file: its first bytes are not 'SWSCENE'", label));
  }
  Parser header(bytes, sizeof(kMagic), label);
  const auto schema = header.get<std::uint32_t>("the header");
  if (schema == 0 || schema > kSchema) {
    throw_data(fmt::format("scene file '{}' has schema {}, this build reads up to {}; dump the scene again",
                           label, schema, kSchema));
  }
  header.get<std::uint32_t>("the header");
  const auto size = header.get<std::uint64_t>("the header");
  if (size != bytes.size() || size < kHeaderBytes + sizeof(std::uint64_t)) {
    throw_data(fmt::format("scene file '{}' is damaged: it should have {} bytes and has {}", label, size,
                           bytes.size()));
  }
  const std::string_view content = bytes.substr(0, bytes.size() - sizeof(std::uint64_t));
  std::uint64_t stored;
  std::memcpy(&stored, bytes.data() + content.size(), sizeof(stored));
  if (const std::uint64_t found = fnv1a(content); found != stored) {
    throw_data(fmt::format("scene file '{}' is damaged: its checksum is {:016x}, its bytes give {:016x}",
                           label, stored, found));
  }

  Parser parser(content, kHeaderBytes, label);
  SceneModel scene(options);
  try {
    if (schema > 1) scene.set_origin_shift(parser.get<Vec3d>("the origin's shift"));
    const auto materials = parser.get<std::uint32_t>("the material table");
    for (std::uint32_t i = 0; i < materials; ++i) scene.add_material(read_material(parser));
    const auto shapes = parser.get<std::uint32_t>("the shape table");
    for (std::uint32_t i = 0; i < shapes; ++i) read_shape(parser, scene);
  } catch (const Error& error) {
    if (error.error_class() == ErrorClass::data) throw;
    parser.fail(error.what());  // the checks of add_mesh() and its like, on what the file holds
  }
  if (parser.remaining() != 0) parser.fail(fmt::format("{} bytes follow the last shape", parser.remaining()));
  if (scene.num_meshes() == 0) throw_data(fmt::format("scene file '{}' has no shapes", label));
  scene.build();
  return scene;
}

SceneModel read_swscene(const std::filesystem::path& path, const SceneModelOptions& options) {
  return parse_swscene(read_whole_file(path, "scene file"), path.string(), options);
}

}  // namespace shardwise
