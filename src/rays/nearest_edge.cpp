#include "shardwise/rays/nearest_edge.hpp"

#include "dispatch/row_dispatcher.hpp"
#include "rays/nearest_edge_operation.hpp"

namespace shardwise {

/// Fills the columns that the three operations have at different places.
struct NearestEdgeAnswers : NearestEdges {
  template <class C>
  static void fill_common(NearestEdgeAnswers& answer, int slots) {
    answer.distance = answer.column_of<float>(C::distance, slots);
    answer.edge_point = answer.column_of<Vec3f>(C::edge_point, slots);
    answer.edge_t = answer.column_of<float>(C::edge_t, slots);
    answer.shape_id = answer.column_of<std::int32_t>(C::shape_id, slots);
    answer.local_edge_id = answer.column_of<std::int32_t>(C::local_edge_id, slots);
    answer.global_edge_id = answer.column_of<std::int32_t>(C::global_edge_id, slots);
    answer.is_boundary = answer.column_of<std::uint8_t>(C::is_boundary, slots);
  }
  static NearestEdges of_points(RowResult result) {
    using C = NearestEdgeOfPointColumns;
    NearestEdgeAnswers answer(std::move(result));
    fill_common<C>(answer, 1);
    answer.point = answer.column_of<Vec3f>(C::echo);
    return answer;
  }
  static NearestEdges of_rays(RowResult result) {
    using C = NearestEdgeOfRayColumns;
    NearestEdgeAnswers answer(std::move(result));
    fill_common<C>(answer, 1);
    answer.point = answer.column_of<Vec3f>(C::point);
    answer.ray_t = answer.column_of<float>(C::ray_t);
    return answer;
  }
  static NearestEdges of_many(RowResult result, int k) {
    using C = NearestEdgesColumns;
    NearestEdgeAnswers answer(std::move(result));
    fill_common<C>(answer, k);
    answer.point = answer.column_of<Vec3f>(C::echo, k);
    answer.is_valid = answer.column_of<std::uint8_t>(C::is_valid, k);
    return answer;
  }

 private:
  explicit NearestEdgeAnswers(RowResult result) : NearestEdges(std::move(result)) {}
};

namespace {

template <class Fill>
Pending<NearestEdges> pending_edges(Pending<RowResult> call, Fill fill) {
  auto inner = std::make_shared<Pending<RowResult>>(std::move(call));
  return Pending<NearestEdges>([inner, fill] { return fill(inner->get()); });
}

}  // namespace

Pending<NearestEdges> nearest_edge_of_points(Scene& scene, const RowSource& points,
                                             const NearestEdgeOptions& options) {
  const bool active = points.gives(NearestEdgeOfPointColumns::active);
  return pending_edges(scene.rows().run(nearest_edge_of_point_operation(scene, active, options.echo), points,
                                        options.sink, options),
                       NearestEdgeAnswers::of_points);
}

Pending<NearestEdges> nearest_edge_of_rays(Scene& scene, const RowSource& rays,
                                           const RowCallOptions& options) {
  const bool tmax = rays.gives(NearestEdgeOfRayColumns::tmax);
  const bool active = rays.gives(NearestEdgeOfRayColumns::active);
  return pending_edges(
      scene.rows().run(nearest_edge_of_ray_operation(scene, tmax, active), rays, options.sink, options),
      NearestEdgeAnswers::of_rays);
}

Pending<NearestEdges> nearest_edges(Scene& scene, const RowSource& points,
                                    const NearestEdgesOptions& options) {
  NearestEdgesRequest request;
  request.k = options.k;
  request.unique_geometry = options.unique_geometry;
  const bool active = points.gives(NearestEdgesColumns::active);
  return pending_edges(
      scene.rows().run(nearest_edges_operation(scene, request, active), points, options.sink, options),
      [k = options.k](RowResult result) { return NearestEdgeAnswers::of_many(std::move(result), k); });
}

}  // namespace shardwise
