#include "dispatch/row_dispatcher.hpp"
#include "rays/camera_operations.hpp"

namespace shardwise {

CameraRays::CameraRays(RowResult result) : RowAnswer(std::move(result)) {
  origin = column_of<Vec3f>(SampleRayColumns::origin);
  direction = column_of<Vec3f>(SampleRayColumns::direction);
}

WorldPoints::WorldPoints(RowResult result) : RowAnswer(std::move(result)) {
  point = column_of<Vec3f>(SampleToWorldColumns::point);
}

PictureSamples::PictureSamples(RowResult result) : RowAnswer(std::move(result)) {
  sample = column_of<Vec2f>(WorldToSampleColumns::sample);
  in_front = column_of<std::uint8_t>(WorldToSampleColumns::in_front);
}

Pending<CameraRays> sample_ray(Scene& scene, const Camera& camera, const RowSource& samples,
                               const RowCallOptions& options) {
  scene.require_sound("sample_ray");
  RowSource source = samples;
  if (source.columns.size() == 2) source.columns.pop_back();  // depths mean nothing here
  return pending_answer<CameraRays>(
      scene.rows().run(sample_ray_operation(camera), std::move(source), options.sink, options));
}

Pending<WorldPoints> sample_to_world(Scene& scene, const Camera& camera, const RowSource& samples,
                                     const SampleToWorldOptions& options) {
  scene.require_sound("sample_to_world");
  const bool depths = samples.gives(SampleToWorldColumns::depth);
  return pending_answer<WorldPoints>(scene.rows().run(
      sample_to_world_operation(camera, options.depth, depths), samples, options.sink, options));
}

Pending<PictureSamples> world_to_sample(Scene& scene, const Camera& camera, const RowSource& points,
                                        const RowCallOptions& options) {
  scene.require_sound("world_to_sample");
  return pending_answer<PictureSamples>(
      scene.rows().run(world_to_sample_operation(camera), points, options.sink, options));
}

}  // namespace shardwise
