#include "scene/embree_tracer.hpp"

#if __has_include(<embree4/rtcore.h>)
#include <embree4/rtcore.h>
#else
#include <embree3/rtcore.h>
#endif

#include <fmt/format.h>

#include "scene/bvh8_kernel.hpp"
#include "scene/triangle_cover.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

#if RTC_VERSION_MAJOR >= 4
using QueryContext = RTCRayQueryContext;
#else
using QueryContext = RTCIntersectContext;
#endif

namespace {

// Roundings of the shared test move a ray by at most 0.31 x 2^-20 (max_coordinate + |o|_inf) against a
// triangle, those of Embree's by less than twice as much, across the ray. A rim lies in the triangle's plane,
// so it helps down to cos(incidence) = shift / rim: with 2^-16 max_coordinate down to 1/16 from inside the
// scene, and to 1/8 from the farthest origins that go to Embree.
constexpr float farthest_origin = 3.0f;  ///< in max_coordinate
constexpr double rim_steps = 0x1p-16;    ///< in max_coordinate

/// What the filter sees of one query. It only notes candidates and shrinks the ray to the nearest one plus a
/// margin, so that every near tie is proposed whatever the shape of Embree's tree; ranking comes after the
/// traversal, when few candidates are left.
struct CandidateQuery {
  QueryContext context;  // first: Embree hands it back to the filter
  const BvhTriangle* triangles;
  float margin;     // in t: how far Embree's t and ours may differ
  float sure_from;  // candidates nearer than this may lie before t_min and must not shrink the ray
  float limit;      // the ray's end: least inflated t so far
  int count;
  bool overflow;
  static constexpr int capacity = 16;
  std::uint32_t record[capacity];
  float t[capacity];

  static float inflate(float t, float margin) { return t * (1.0f + 0x1p-17f) + margin; }

  void drop_far() {
    int kept = 0;
    for (int i = 0; i < count; ++i)
      if (t[i] <= limit) record[kept] = record[i], t[kept++] = t[i];
    count = kept;
  }

  void add(std::uint32_t candidate, float at) {
    if (at >= sure_from) {
      const float end = inflate(at, margin);
      limit = end < limit ? end : limit;
    }
    if (count == capacity) drop_far();
    if (count == capacity) {
      overflow = true;
      return;
    }
    record[count] = candidate;
    t[count++] = at;
  }
};

void note_candidate(const RTCFilterFunctionNArguments* args) {
  auto& query = *reinterpret_cast<CandidateQuery*>(args->context);
  // N is 1 for rtcIntersect1, and valid stays set: Embree keeps the candidate and the end that we give the
  // ray.
  auto& ray = *reinterpret_cast<RTCRay*>(args->ray);
  const unsigned record = RTCHitN_primID(args->hit, 1, 0);
  const auto* triangle = reinterpret_cast<const char*>(query.triangles + record);
  __builtin_prefetch(triangle);  // 48 bytes lie in one or two cache lines
  __builtin_prefetch(triangle + sizeof(BvhTriangle) - 1);
  query.add(record, ray.tfar);
  ray.tfar = query.limit;
}

}  // namespace

struct EmbreeScene::State {
  RTCDevice device = nullptr;
  RTCScene scene = nullptr;
  RTCGeometry geometry = nullptr;
  std::atomic<std::ptrdiff_t> bytes{0};

  ~State() {
    if (geometry) rtcReleaseGeometry(geometry);
    if (scene) rtcReleaseScene(scene);
    if (device) rtcReleaseDevice(device);
  }

  void check(const char* step) const {
    const RTCError error = rtcGetDeviceError(device);
    if (error == RTC_ERROR_NONE) return;
    throw Error(
        error == RTC_ERROR_OUT_OF_MEMORY ? ErrorClass::memory : ErrorClass::internal,
        fmt::format("Embree {}: {} failed with error {} while {} bytes were held; the BVH tracer (strict) "
                    "needs no Embree",
                    RTC_VERSION_STRING, step, static_cast<int>(error), bytes.load()));
  }

  void set_triangles(const SceneView& view) {
    const std::size_t count = view.triangle_count;
    auto* corners = static_cast<Vec3f*>(rtcSetNewGeometryBuffer(geometry, RTC_BUFFER_TYPE_VERTEX, 0,
                                                                RTC_FORMAT_FLOAT3, sizeof(Vec3f), 3 * count));
    check("the vertex buffer");
    auto* indices = static_cast<std::uint32_t*>(rtcSetNewGeometryBuffer(
        geometry, RTC_BUFFER_TYPE_INDEX, 0, RTC_FORMAT_UINT3, 3 * sizeof(std::uint32_t), count));
    check("the index buffer");
    const double rim = rim_steps * static_cast<double>(view.max_coordinate);
    for (std::size_t i = 0; i < count; ++i) {
      const BvhTriangle& t = view.triangles[i];
      const auto cover = cover_of(to_double(t.v0), to_double(t.v1), to_double(t.v2), rim);
      for (std::size_t k = 0; k < 3; ++k) {
        corners[3 * i + k] = to_float(cover[k]);
        indices[3 * i + k] = static_cast<std::uint32_t>(3 * i + k);
      }
    }
    rtcCommitGeometry(geometry);
    rtcJoinCommitScene(scene);
    check("building its tree");
  }
};

EmbreeScene::EmbreeScene(const SceneView& scene) : state_(std::make_unique<State>()) {
  State& s = *state_;
  // No thread count: Embree would make it the process' limit for TBB. The build joins the caller's arena.
  s.device = rtcNewDevice("start_threads=0,set_affinity=0");
  if (!s.device)
    throw Error(ErrorClass::internal, fmt::format("Embree {}: no device (error {})", RTC_VERSION_STRING,
                                                  static_cast<int>(rtcGetDeviceError(nullptr))));
  rtcSetDeviceMemoryMonitorFunction(
      s.device,
      [](void* state, ssize_t bytes, bool) {
        static_cast<State*>(state)->bytes.fetch_add(bytes, std::memory_order_relaxed);
        return true;
      },
      &s);
  s.scene = rtcNewScene(s.device);
  native_ = s.scene;
  // Not the robust mode: it passes between triangles, too, so the covers are needed either way, and with them
  // its slower edge test brings nothing. Both modes give the hits of the tests; this one is a sixth faster.
  rtcSetSceneFlags(s.scene, RTC_SCENE_FLAG_NONE);
  rtcSetSceneBuildQuality(s.scene, RTC_BUILD_QUALITY_HIGH);
  s.geometry = rtcNewGeometry(s.device, RTC_GEOMETRY_TYPE_TRIANGLE);
  rtcSetGeometryIntersectFilterFunction(s.geometry, note_candidate);
  rtcAttachGeometryByID(s.scene, s.geometry, 0);
  s.check("creating a scene");
  s.set_triangles(scene);
}

EmbreeScene::EmbreeScene(EmbreeScene&&) noexcept = default;
EmbreeScene& EmbreeScene::operator=(EmbreeScene&&) noexcept = default;
EmbreeScene::~EmbreeScene() = default;

void EmbreeScene::update(const SceneView& scene) {
  state_->set_triangles(scene);
}
std::size_t EmbreeScene::memory_bytes() const {
  return static_cast<std::size_t>(state_->bytes.load());
}
Hit EmbreeTracer::closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
  Hit best{__builtin_inff(), 0.0f, 0.0f, ~0u, ~0u};
  if (scene.node_count == 0 || !(t_max > 0.0f) || !RayData::can_hit(o, d)) return best;
  const auto let_the_bvh_decide = [&] {
    if (fallbacks) ++*fallbacks;
    return BvhTracer{scene}.closest(o, d, t_min, t_max);
  };
  // Embree knows no t before the origin, and the covers' rims are made for origins near the scene.
  if (!(t_min >= 0.0f) || max_abs(o) > farthest_origin * scene.max_coordinate) return let_the_bvh_decide();

  CandidateQuery query;
  query.triangles = scene.triangles;
  query.margin = 2.0f * RayData::pad_of(o, scene.max_coordinate) / max_abs(d);
  query.sure_from = CandidateQuery::inflate(t_min, query.margin);
  query.limit = CandidateQuery::inflate(t_max, query.margin);
  query.count = 0;
  query.overflow = false;
  RTCRayHit rayhit;
  // No product with a tiny t_min: its result would be subnormal, which costs 150 cycles.
  const float start = t_min > query.margin ? t_min * (1.0f - 0x1p-17f) - query.margin : 0.0f;
  rayhit.ray = {o.x, o.y, o.z, start > 0.0f ? start : 0.0f, d.x, d.y, d.z, 0.0f, query.limit, ~0u, 0, 0};
  rayhit.hit.geomID = RTC_INVALID_GEOMETRY_ID;
  rayhit.hit.instID[0] = RTC_INVALID_GEOMETRY_ID;
  const auto native = static_cast<RTCScene>(embree->native());
#if RTC_VERSION_MAJOR >= 4
  rtcInitRayQueryContext(&query.context);
  RTCIntersectArguments arguments;
  rtcInitIntersectArguments(&arguments);
  arguments.context = &query.context;
  rtcIntersect1(native, &rayhit, &arguments);
#else
  rtcInitIntersectContext(&query.context);
  rtcIntersect1(native, &query.context, &rayhit);
#endif
  if (query.overflow) return let_the_bvh_decide();
  if (query.count == 0) return best;
  RayData ray;
  ray.prepare(o, d, scene.max_coordinate);

  // A candidate on a cover's rim, which the shared formula rejects, may have cut the ray too short; so it may
  // be where the two t disagree. Harmless is a rejected one that is no nearer than an accepted one, within
  // half the margin: then everything up to the other half beyond the accepted t was proposed, and t agree to
  // a quarter.
  float limit = t_max < 3.40282347e38f ? t_max : 3.40282347e38f;
  float nearest_rejected = __builtin_inff(), nearest_accepted = __builtin_inff();
  for (int i = 0; i < query.count; ++i) {
    const float proposed = query.t[i];
    if (proposed > query.limit) continue;
    const BvhTriangle& triangle = scene.triangles[query.record[i]];
    TriangleHit hit;
    if (!intersect_triangle(ray, triangle.v0, triangle.v1, triangle.v2, -3.40282347e38f, 3.40282347e38f,
                            hit)) {
      nearest_rejected = lesser(proposed, nearest_rejected);
      continue;
    }
    const float apart = hit.t < proposed ? proposed - hit.t : hit.t - proposed;
    if (!(apart <= 0.25f * (CandidateQuery::inflate(proposed, query.margin) - proposed)))
      return let_the_bvh_decide();
    if (!(hit.t >= t_min && hit.t <= t_max)) continue;
    nearest_accepted = lesser(proposed, nearest_accepted);
    if (hit.t < limit || (hit.t == limit && triangle.prim < best.prim)) {
      best = {hit.t, hit.u, hit.v, triangle.prim, query.record[i]};
      limit = hit.t;
    }
  }
  if (nearest_rejected + 0.5f * query.margin < nearest_accepted) return let_the_bvh_decide();
  return best;
}

}  // namespace shardwise
