// Generators and reducers on CUDA.

#include "rays/generators_kernel.hpp"
#include "rays/reducers_kernel.hpp"
#include "runtime/cuda/for_each.cuh"

SW_INSTANTIATE_FOR_EACH(shardwise::RandomRayRows);
SW_INSTANTIATE_FOR_EACH(shardwise::CameraRayRows);
SW_INSTANTIATE_FOR_EACH(shardwise::SumColumnParts);
SW_INSTANTIATE_FOR_EACH(shardwise::MergeSums);
