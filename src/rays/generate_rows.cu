// Generators and reducers on CUDA.

#include "rays/generators_kernel.hpp"
#include "rays/reducers_kernel.hpp"
#include "runtime/cuda/for_each.cuh"
#include "runtime/cuda/warm_kernel.cuh"

SW_INSTANTIATE_FOR_EACH(shardwise::RandomRayRows);
SW_INSTANTIATE_FOR_EACH(shardwise::CameraRayRows);
SW_INSTANTIATE_FOR_EACH(shardwise::SumColumnParts);
SW_INSTANTIATE_FOR_EACH(shardwise::MergeSums);

namespace shardwise {
namespace {

[[maybe_unused]] const bool are_noted[] = {note_warm_body<RandomRayRows>(), note_warm_body<CameraRayRows>(),
                                           note_warm_body<SumColumnParts>(), note_warm_body<MergeSums>()};

}  // namespace
}  // namespace shardwise
