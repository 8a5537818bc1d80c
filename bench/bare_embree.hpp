#pragma once
// What our tracing on the host is compared with: Embree alone, a loop of rtcIntersect1.

#if SHARDWISE_WITH_EMBREE

#if __has_include(<embree4/rtcore.h>)
#include <embree4/rtcore.h>
#else
#include <embree3/rtcore.h>
#endif

#include <cstddef>
#include <cstdint>
#include <span>

#include "scene/scene_view.hpp"
#include "trace_host.hpp"

namespace shardwise::bench {

/// Embree as its tutorials use it: one geometry, no filter.
class BareScene {
 public:
  BareScene(const SceneView& view, RTCSceneFlags flags)
      : device_(rtcNewDevice("start_threads=0")), scene_(rtcNewScene(device_)) {
    rtcSetSceneFlags(scene_, flags);
    rtcSetSceneBuildQuality(scene_, RTC_BUILD_QUALITY_HIGH);
    RTCGeometry geometry = rtcNewGeometry(device_, RTC_GEOMETRY_TYPE_TRIANGLE);
    const std::size_t count = view.triangle_count;
    rtcSetSharedGeometryBuffer(geometry, RTC_BUFFER_TYPE_VERTEX, 0, RTC_FORMAT_FLOAT3, view.triangles, 0, 16,
                               3 * count);
    auto* indices = static_cast<std::uint32_t*>(
        rtcSetNewGeometryBuffer(geometry, RTC_BUFFER_TYPE_INDEX, 0, RTC_FORMAT_UINT3, 12, count));
    for (std::size_t i = 0; i < 3 * count; ++i) indices[i] = static_cast<std::uint32_t>(i);
    rtcCommitGeometry(geometry);
    rtcAttachGeometry(scene_, geometry);
    rtcReleaseGeometry(geometry);
    rtcCommitScene(scene_);
  }
  BareScene(const BareScene&) = delete;
  ~BareScene() {
    rtcReleaseScene(scene_);
    rtcReleaseDevice(device_);
  }
  RTCScene native() const { return scene_; }

 private:
  RTCDevice device_;
  RTCScene scene_;
};

inline std::size_t bare_loop(RTCScene scene, std::span<const TraceRay> rays) {
  std::size_t hits = 0;
  for (const TraceRay& ray : rays) {
    RTCRayHit rayhit;
    rayhit.ray = {ray.o.x, ray.o.y, ray.o.z,   ray.t_min, ray.d.x, ray.d.y,
                  ray.d.z, 0.0f,    ray.t_max, ~0u,       0,       0};
    rayhit.hit.geomID = RTC_INVALID_GEOMETRY_ID;
    rayhit.hit.instID[0] = RTC_INVALID_GEOMETRY_ID;
#if RTC_VERSION_MAJOR >= 4
    rtcIntersect1(scene, &rayhit);
#else
    RTCIntersectContext context;
    rtcInitIntersectContext(&context);
    rtcIntersect1(scene, &context, &rayhit);
#endif
    hits += rayhit.hit.geomID != RTC_INVALID_GEOMETRY_ID;
  }
  return hits;
}

}  // namespace shardwise::bench

#endif
