#pragma once
// What decides the bits of a coverage run, as the files of its parts say it, and back.

#include <string>
#include <vector>

#include "coverage_report.hpp"
#include "partial_file.hpp"

namespace shardwise::program {

/// Of a placed request, before --target-error adds passes. `tracer` names what answers on the devices.
Json run_parameters(const CoverageRequest& request, const SceneModel& model, const std::string& tracer);

/// What the report and the picture of joined parts need besides: of a report whose census was made.
Json run_context(const CoverageReport& report, const std::string& title);

/// The part that a run begins with: no lanes yet.
PartialFile empty_partial(const CoverageReport& report, const SceneModel& model, const std::string& tracer,
                          const std::string& title);

/// A run as its parts tell it.
struct JoinedRun {
  CoverageRequest request;
  CoverageReport report;  ///< counts, census, the parts' warnings; its request is to be set
  std::string title;
};

/// Throws a data error that names `path` where parameters or context do not say what they should.
JoinedRun joined_run(const PartialFile& partial, const std::string& path);

}  // namespace shardwise::program
