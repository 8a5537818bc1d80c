#pragma once
// What a call for several nearest edges asks for beside its rows.

namespace shardwise {

/// The most slots that nearest_edges gives.
inline constexpr int most_nearest_edges = 16;

struct NearestEdgesRequest {
  int k = 1;  ///< slots a row, 1 to most_nearest_edges
  /// Of the records with one geometry_id (pairs of faces at an edge of three or more) only the first that the
  /// mask shows.
  bool unique_geometry = false;
};

}  // namespace shardwise
