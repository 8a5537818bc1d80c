#include "rays/traced_scene.hpp"

namespace shardwise {

std::vector<TracedScene> traced_scenes(Scene& scene, const std::string& op, bool with_faces) {
  if (with_faces)
    scene.require_face_data(op);
  else
    scene.require_ready(op);
  std::vector<TracedScene> result;
  for (int d = 0; d < scene.devices().size(); ++d) {
    const Replica& replica = scene.replica(d);
    result.push_back({replica.view(), with_faces ? replica.faces() : FaceView{}, replica.embree()});
  }
  return result;
}

std::function<Access(int)> reads_of(const Scene& scene) {
  return [&scene](int device) { return scene.replica(device).reads(); };
}

}  // namespace shardwise
