#include <cuda_runtime.h>

#include "gpu/scenario_rows.hpp"

namespace shardwise::test {

namespace {

__global__ void rows_kernel(const Word* in, const Word* table, Word* out, std::int64_t count) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i < count) out[i] = in[i] * 2654435761u + table[in[i] % table_size];
}

__global__ void delay_kernel(long long nanoseconds) {
  unsigned long long begin = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < static_cast<unsigned long long>(nanoseconds));
}

__global__ void write_kernel(Word* target) {
  *target = 1;
}

}  // namespace

void launch_rows(LaunchContext& context, const Word* in, const Word* table, Word* out, std::int64_t count) {
  auto stream = static_cast<cudaStream_t>(context.native_stream());
  if (!stream) return launch_rows_on_host(context, in, table, out, count);
  rows_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(in, table, out, count);
}

void launch_delay(LaunchContext& context, double milliseconds) {
  auto stream = static_cast<cudaStream_t>(context.native_stream());
  if (stream) delay_kernel<<<1, 1, 0, stream>>>(static_cast<long long>(milliseconds * 1e6));
}

void launch_write(LaunchContext& context, Word* target) {
  write_kernel<<<1, 1, 0, static_cast<cudaStream_t>(context.native_stream())>>>(target);
}

}  // namespace shardwise::test
