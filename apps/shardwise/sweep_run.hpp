#pragma once
// One run of a sweep as a job: from the plan to the files of its folder.

#include <memory>
#include <string>
#include <vector>

#include "coverage_report.hpp"
#include "coverage_run.hpp"
#include "shardwise/jobs/device_cache.hpp"
#include "surfaces.hpp"
#include "sweep_cache.hpp"
#include "sweep_plan.hpp"

namespace shardwise::program {

/// A scene as several runs use it: read once, and built once on each device.
struct SweepScene {
  SweepScene(const std::string& path, const SceneFileOptions& options);
  std::string key;  ///< of path and options, for this process
  std::string title;
  // Filled while the model is read, so they come before it.
  std::vector<std::string> file_digests;  ///< of everything that was read: names and bytes
  std::vector<std::string> remarks;
  SceneModel model;
  Surfaces surfaces;

 private:
  static SceneModel load(const std::string& path, const SceneFileOptions& options, SweepScene& scene);
};

/// A run, placed in its scene.
struct SweepItem {
  SweepRun run;
  std::shared_ptr<const SweepScene> scene;
  CoverageRequest request;  ///< placed
  std::string key;          ///< of the cache

  /// Rays, each with its reflections: what the time grows with.
  double work() const;
  /// Bytes that the call's grids take on a device.
  std::uint64_t bytes() const;
};

/// Throws data errors that name the run.
SweepItem make_item(SweepRun run, std::shared_ptr<const SweepScene> scene, const std::string& backend);

/// What a job hands over to the main thread, which makes pictures and files.
struct SweepResult {
  CoverageRequest request;
  CoverageRun run;
  CoverageReport report;  ///< of the two above
};

using SweepScenes = DeviceCache<CoverageRunner>;

/// On the job's device alone.
std::shared_ptr<SweepResult> compute(const SweepItem& item, SweepScenes& scenes, JobContext& job);

/// The files of the run's folder, and its numbers for the table.
SweepEntry entry_of(const SweepItem& item, const SweepResult& result);

}  // namespace shardwise::program
