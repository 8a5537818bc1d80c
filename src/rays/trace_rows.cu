// CUDA launches of rows that follow rays. The bodies are those of the host.

#include "rays/camera_kernel.hpp"
#include "rays/intersect_kernel.hpp"
#include "rays/penetration_kernel.hpp"
#include "rays/reflections_kernel.hpp"
#include "runtime/cuda/for_each.cuh"
#include "runtime/cuda/warm_kernel.cuh"

SW_INSTANTIATE_FOR_EACH_AS(shardwise::IntersectRows<shardwise::BvhQueries>, 64, 16);
SW_INSTANTIATE_FOR_EACH_AS(shardwise::ReflectionRows<shardwise::BvhQueries>, 64, 16);
SW_INSTANTIATE_FOR_EACH_AS(shardwise::PenetrationRows<shardwise::BvhQueries>, 64, 16);
SW_INSTANTIATE_FOR_EACH(shardwise::SampleRayRows);
SW_INSTANTIATE_FOR_EACH(shardwise::SampleToWorldRows);
SW_INSTANTIATE_FOR_EACH(shardwise::WorldToSampleRows);

namespace shardwise {
namespace {

[[maybe_unused]] const bool are_noted[] = {
    note_warm_body<IntersectRows<BvhQueries>>(),   note_warm_body<ReflectionRows<BvhQueries>>(),
    note_warm_body<PenetrationRows<BvhQueries>>(), note_warm_body<SampleRayRows>(),
    note_warm_body<SampleToWorldRows>(),           note_warm_body<WorldToSampleRows>()};

}  // namespace
}  // namespace shardwise
