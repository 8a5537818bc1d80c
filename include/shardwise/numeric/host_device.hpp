#pragma once
// SW_HD marks a function that host and CUDA compile from one source.
#if defined(__CUDACC__)
#define SW_HD __host__ __device__
#else
#define SW_HD
#endif
