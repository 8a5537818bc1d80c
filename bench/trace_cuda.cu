// bench_trace_cuda [FILE.ply | cloud | city] ...: closest hits per second of the BVH body on the first CUDA
// device, and a comparison of every hit with the host's, bit for bit.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "scene/bvh8_kernel.hpp"
#include "shardwise/runtime/error.hpp"
#include "trace_host.hpp"

namespace shardwise::bench {
namespace {

__global__ void trace_kernel(SceneView scene, const TraceRay* rays, Hit* hits, std::uint32_t count) {
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) hits[i] = BvhTracer{scene}.closest(rays[i].o, rays[i].d, rays[i].t_min, rays[i].t_max);
}

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess)
    throw Error(ErrorClass::device,
                std::string("bench_trace_cuda: ") + what + ": " + cudaGetErrorString(error));
}

template <class T>
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<T>& host) : DeviceCopy(host.size()) {
    check(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice),
          "copy to the device");
  }
  explicit DeviceCopy(std::size_t count) { check(cudaMalloc(&data_, count * sizeof(T) + 1), "allocation"); }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy() { cudaFree(data_); }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// The number of rays whose hits differ in a bit.
std::size_t run(const TraceMesh& mesh, std::size_t ray_count, int repeats) {
  const Bvh8 bvh = build_for_trace(mesh);
  SceneView scene = view_of(bvh);
  scene.diagonal = 2 * scene.max_coordinate;
  const std::vector<TraceRay> rays = bouncing_rays(mesh, scene, ray_count);
  const DeviceCopy<Bvh8Node> nodes(bvh.nodes);
  const DeviceCopy<BvhTriangle> triangles(bvh.triangles);
  const DeviceCopy<TraceRay> device_rays(rays);
  const DeviceCopy<Hit> device_hits(rays.size());
  SceneView device_scene = scene;
  device_scene.nodes = nodes.get();
  device_scene.triangles = triangles.get();
  device_scene.record_of_prim = nullptr;
  const auto count = static_cast<std::uint32_t>(rays.size());
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "event");
  check(cudaEventCreate(&stop), "event");
  float least_ms = 1e30f;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    check(cudaEventRecord(start), "event");
    trace_kernel<<<(count + 127) / 128, 128>>>(device_scene, device_rays.get(), device_hits.get(), count);
    check(cudaGetLastError(), "launch");
    check(cudaEventRecord(stop), "event");
    check(cudaEventSynchronize(stop), "trace");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, stop), "event");
    if (repeat > 0 && ms < least_ms) least_ms = ms;
  }
  std::vector<Hit> hits(rays.size());
  check(cudaMemcpy(hits.data(), device_hits.get(), hits.size() * sizeof(Hit), cudaMemcpyDeviceToHost),
        "copy back");
  std::size_t different = 0, valid = 0;
  for (std::size_t i = 0; i < rays.size(); ++i) {
    const Hit host = BvhTracer{scene}.closest(rays[i].o, rays[i].d, rays[i].t_min, rays[i].t_max);
    valid += host.valid();
    different += std::memcmp(&host, &hits[i], sizeof(Hit)) != 0;
  }
  std::printf(
      "%s: %u triangles, %u rays, %.3f ms, %.1f M closest hits/s, %.4f hit, %zu differ from the host\n",
      mesh.name.c_str(), scene.triangle_count, count, least_ms, static_cast<double>(count) / (1e3 * least_ms),
      static_cast<double>(valid) / count, different);
  return different;
}

}  // namespace
}  // namespace shardwise::bench

int main(int argc, char** argv) try {
  using namespace shardwise::bench;
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names.empty()) names = {"cloud", "city"};
  std::size_t different = 0;
  for (const std::string& name : names) different += run(mesh_named(name), 8u << 20, 10);
  return different == 0 ? 0 : 1;
} catch (const shardwise::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return shardwise::exit_code(error.error_class());
}
