#pragma once
// Calibration with built-in probes: random rows for any operation on rows, so that nobody has to bring a
// batch.
//
//   Scene scene(open_devices("cuda:0,1"), read_scene("munich.xml"));
//   scene.build();
//   const CalibrationRecord record = calibrate(scene, "trace_reflections:4", 4 << 20);

#include <cstdint>
#include <string>

#include "shardwise/dispatch/calibrate.hpp"
#include "shardwise/scene/scene.hpp"

namespace shardwise {

/// A call of `operation` on `rows` random rows in the memory of the scene's first device: positions uniform
/// in the scene's bounds, directions uniform over the sphere, results in that device's memory. The rows are
/// made here and live as long as the call does; the scene outlives it. `operation` is an exact shape of the
/// table of operations ("intersect:full", "nearest_edges:8"), or a family, which means the table's shape of
/// it. Throws a usage Error for what is no operation on rows or has no such shape, and for fewer than 1 row;
/// what the scene throws that is not ready; a memory Error where the rows do not fit.
CalibrationCall operation_probe(Scene& scene, const std::string& operation, std::int64_t rows);

/// The exact shape that such a name means: "intersect" is "intersect:full". Throws as operation_probe().
std::string exact_operation(const std::string& operation);

/// calibrate() with that call. The record's operation is the exact shape.
CalibrationRecord calibrate(Scene& scene, const std::string& operation, std::int64_t rows,
                            const CalibrateOptions& options = {});

}  // namespace shardwise
