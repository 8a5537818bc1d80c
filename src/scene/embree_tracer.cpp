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

}  // namespace

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

namespace {

void init_context(CandidateQuery& query) {
#if RTC_VERSION_MAJOR >= 4
  rtcInitRayQueryContext(&query.context);
#else
  rtcInitIntersectContext(&query.context);
#endif
}

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

namespace {

constexpr Hit no_hit{__builtin_inff(), 0.0f, 0.0f, ~0u, ~0u};

/// How far one query goes, in t.
struct QueryRange {
  float margin, sure_from, limit, start;

  QueryRange() = default;
  QueryRange(Vec3f o, Vec3f d, float t_min, float t_max, float max_coordinate) {
    margin = 2.0f * RayData::pad_of(o, max_coordinate) / max_abs(d);
    sure_from = CandidateQuery::inflate(t_min, margin);
    limit = CandidateQuery::inflate(t_max, margin);
    // No product with a tiny t_min: its result would be subnormal, which costs 150 cycles.
    const float before = t_min * (t_min > margin ? 1.0f - 0x1p-17f : 0.0f) - margin;
    start = before > 0.0f ? before : 0.0f;
  }
};

void propose(RTCScene native, Vec3f o, Vec3f d, const QueryRange& range, CandidateQuery& query) {
  query.margin = range.margin;
  query.sure_from = range.sure_from;
  query.limit = range.limit;
  query.count = 0;
  query.overflow = false;
  RTCRayHit rayhit;
  rayhit.ray = {o.x, o.y, o.z, range.start, d.x, d.y, d.z, 0.0f, range.limit, ~0u, 0, 0};
  rayhit.hit.geomID = RTC_INVALID_GEOMETRY_ID;
  rayhit.hit.instID[0] = RTC_INVALID_GEOMETRY_ID;
#if RTC_VERSION_MAJOR >= 4
  RTCIntersectArguments arguments;
  rtcInitIntersectArguments(&arguments);
  arguments.context = &query.context;
  rtcIntersect1(native, &rayhit, &arguments);
#else
  rtcIntersect1(native, &query.context, &rayhit);
#endif
  query.drop_far();
}

/// Do Embree's t and ours agree, to a quarter of the margin?
bool agrees(float proposed, float t, float margin) {
  return absolute(proposed - t) <= 0.25f * (CandidateQuery::inflate(proposed, margin) - proposed);
}

}  // namespace

Hit EmbreeTracer::decided_by_bvh(Vec3f o, Vec3f d, float t_min, float t_max) const {
  if (fallbacks) ++*fallbacks;
  return BvhTracer{scene}.closest(o, d, t_min, t_max);
}

// Embree knows no t before the origin, and the covers' rims are made for origins near the scene.
static bool goes_to_embree(Vec3f o, float t_min, float max_coordinate) {
  return (t_min >= 0.0f) & (max_abs(o) <= farthest_origin * max_coordinate);
}

Hit EmbreeTracer::closest(Vec3f o, Vec3f d, float t_min, float t_max) const {
  if (scene.node_count == 0 || !(t_max > 0.0f) || !RayData::can_hit(o, d)) return no_hit;
  if (!goes_to_embree(o, t_min, scene.max_coordinate)) return decided_by_bvh(o, d, t_min, t_max);
  CandidateQuery query;
  init_context(query);
  query.triangles = scene.triangles;
  propose(static_cast<RTCScene>(embree->native()), o, d, {o, d, t_min, t_max, scene.max_coordinate}, query);
  return ranked(query, o, d, t_min, t_max);
}

Hit EmbreeTracer::ranked(const CandidateQuery& query, Vec3f o, Vec3f d, float t_min, float t_max) const {
  Hit best = no_hit;
  if (query.overflow) return decided_by_bvh(o, d, t_min, t_max);
  if (query.count == 0) return best;
  RayData ray;
  ray.set(o, d, scene.max_coordinate);

  // A candidate on a cover's rim, which the shared formula rejects, may have cut the ray too short; so it may
  // be where the two t disagree. Harmless is a rejected one that is no nearer than an accepted one, within
  // half the margin: then everything up to the other half beyond the accepted t was proposed, and t agree to
  // a quarter.
  float limit = t_max < 3.40282347e38f ? t_max : 3.40282347e38f;
  float nearest_rejected = __builtin_inff(), nearest_accepted = __builtin_inff();
  for (int i = 0; i < query.count; ++i) {
    const float proposed = query.t[i];
    const BvhTriangle& triangle = scene.triangles[query.record[i]];
    TriangleHit hit;
    if (!intersect_triangle(ray, triangle.v0, triangle.v1, triangle.v2, -3.40282347e38f, 3.40282347e38f,
                            hit)) {
      nearest_rejected = lesser(proposed, nearest_rejected);
      continue;
    }
    if (!agrees(proposed, hit.t, query.margin)) return decided_by_bvh(o, d, t_min, t_max);
    if (!(hit.t >= t_min && hit.t <= t_max)) continue;
    nearest_accepted = lesser(proposed, nearest_accepted);
    if (hit.t < limit || (hit.t == limit && triangle.prim < best.prim)) {
      best = {hit.t, hit.u, hit.v, triangle.prim, query.record[i]};
      limit = hit.t;
    }
  }
  if (nearest_rejected + 0.5f * query.margin < nearest_accepted) return decided_by_bvh(o, d, t_min, t_max);
  return best;
}

namespace {

enum Way : std::uint32_t { nothing, one_candidate, several, alone };

/// The queries of many rays.
struct QueryBatch {
  static constexpr int capacity = RayBatch::capacity;
  alignas(64) float margin[capacity];
  alignas(64) float sure_from[capacity];
  alignas(64) float limit[capacity];
  alignas(64) float start[capacity];
  alignas(64) float proposed[capacity];  ///< Embree's t of the one candidate
  alignas(64) std::uint32_t way[capacity];

  QueryRange range(int i) const {
    QueryRange range;
    range.margin = margin[i], range.sure_from = sure_from[i], range.limit = limit[i], range.start = start[i];
    return range;
  }
};

// The loops of these two have no branch and become vector instructions once all is inlined.

/// What is not plain is left to closest() of one ray.
[[gnu::flatten, gnu::noinline]] void prepare_queries(const SceneView& scene, const RayBatch& rays, int count,
                                                     float t_min, QueryBatch& queries) {
  const float max_coordinate = scene.max_coordinate;
  const std::uint32_t plain_way = scene.node_count > 0 && t_min >= 0.0f ? nothing : alone;
  for (int i = 0; i < count; ++i) {
    const Vec3f o = rays.origin(i), d = rays.direction(i);
    const QueryRange range(o, d, t_min, rays.t_max[i], max_coordinate);
    queries.margin[i] = range.margin;
    queries.sure_from[i] = range.sure_from;
    queries.limit[i] = range.limit;
    queries.start[i] = range.start;
    const bool plain =
        (rays.t_max[i] > 0.0f) & RayData::can_hit(o, d) & (max_abs(o) <= farthest_origin * max_coordinate);
    queries.way[i] = plain ? plain_way : static_cast<std::uint32_t>(alone);
  }
}

/// One candidate alone: closest()'s ranking for all of them together. What it does not settle is left to
/// closest().
[[gnu::flatten, gnu::noinline]] void rank_single_candidates(const SceneView& scene, const RayBatch& rays,
                                                            int count, float t_min, QueryBatch& queries,
                                                            HitBatch& hits) {
  const float max_coordinate = scene.max_coordinate;
  for (int i = 0; i < count; ++i) {
    const LockstepHit found =
        intersect_lockstep(rays.origin(i), rays.direction(i), max_coordinate, hits.corner_of(i, 0),
                           hits.corner_of(i, 1), hits.corner_of(i, 2));
    const float t = found.hit.t;
    const bool settled = (found.sure != 0) & agrees(queries.proposed[i], t, queries.margin[i]);
    const bool inside = (t >= t_min) & (t <= rays.t_max[i]);
    const std::uint32_t way = queries.way[i];
    const bool candidate = way == one_candidate;
    const bool hit = candidate & settled & inside;
    hits.t[i] = hit ? t : __builtin_inff();
    hits.u[i] = found.hit.u;
    hits.v[i] = found.hit.v;
    const std::uint32_t prim = hits.prim[i];
    hits.prim[i] = hit ? prim : ~0u;
    queries.way[i] = (candidate & !settled) ? static_cast<std::uint32_t>(alone) : way;
  }
}

}  // namespace

void EmbreeTracer::closest(const RayBatch& rays, int count, float t_min, HitBatch& hits) const {
  QueryBatch queries;
  prepare_queries(scene, rays, count, t_min, queries);
  CandidateQuery query;
  init_context(query);
  query.triangles = scene.triangles;
  const auto native = static_cast<RTCScene>(embree->native());
  Hit ranked_hits[RayBatch::capacity];
  for (int i = 0; i < count; ++i) {
    queries.proposed[i] = 0;
    if (queries.way[i] == alone) continue;
    propose(native, rays.origin(i), rays.direction(i), queries.range(i), query);
    if (query.count == 0 && !query.overflow) continue;
    if (query.count > 1 || query.overflow) {
      queries.way[i] = several;
      ranked_hits[i] = ranked(query, rays.origin(i), rays.direction(i), t_min, rays.t_max[i]);
      continue;
    }
    queries.way[i] = one_candidate;
    queries.proposed[i] = query.t[0];
    hits.record[i] = query.record[0];
  }
  for (int i = 0; i < count; ++i)
    if (queries.way[i] == one_candidate) {
      const BvhTriangle& triangle = scene.triangles[hits.record[i]];
      hits.set_corners(i, triangle);
      hits.prim[i] = triangle.prim;
    }
  rank_single_candidates(scene, rays, count, t_min, queries, hits);
  for (int i = 0; i < count; ++i) {
    if (queries.way[i] == several)
      hits.set(i, ranked_hits[i], scene);
    else if (queries.way[i] == alone)
      hits.set(i, closest(rays.origin(i), rays.direction(i), t_min, rays.t_max[i]), scene);
  }
}

}  // namespace shardwise
