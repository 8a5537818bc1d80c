#include "runtime/cuda/cuda_stream.hpp"

#include <cuda.h>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/host/host_stream.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/timeline.hpp"

namespace shardwise {

CudaEvent::CudaEvent(int device, bool timed) : device_(device) {
  CurrentCudaDevice current(device_);
  SW_CUDA(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() {
  if (event_) cudaEventDestroy(event_);
}

void CudaEvent::wait_on_host() { SW_CUDA(cudaEventSynchronize(event_)); }

bool CudaEvent::is_signalled() { return cudaEventQuery(event_) != cudaErrorNotReady; }

namespace {

class CudaLaunchContext final : public LaunchContext {
 public:
  CudaLaunchContext(CudaDevice& device, cudaStream_t stream) : device_(device), stream_(stream) {}
  Device& device() override { return device_; }
  void* native_stream() override { return stream_; }
  void parallel_for(std::int64_t, std::int64_t, const RangeFunction&) override { no_host_code(); }
  void execute(const std::function<void()>&) override { no_host_code(); }

 private:
  [[noreturn]] void no_host_code() {
    throw Error(ErrorClass::internal, device_.name() + ": a host loop was given to a GPU; this operation has no CUDA body");
  }

  CudaDevice& device_;
  cudaStream_t stream_;
};

}  // namespace

CudaStream::CudaStream(CudaDevice& device, std::string name) : Stream(device, std::move(name)), device_(device) {
  CurrentCudaDevice current(device.index());
  SW_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  origin_ = std::make_shared<CudaEvent>(device.index(), true);
  SW_CUDA(cudaEventRecord(origin_->native(), stream_));
  SW_CUDA(cudaEventSynchronize(origin_->native()));
  origin_time_ = std::chrono::steady_clock::now();
}

CudaStream::~CudaStream() {
  int previous = 0;
  cudaGetDevice(&previous);
  cudaSetDevice(device_.index());
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  for (void* flag : flags_) cudaFreeHost(flag);
  cudaSetDevice(previous);
}

void CudaStream::enqueue(Operation operation) {
  last_enqueued_ = operation.name;
  if (error_ && operation.kind != OperationKind::release) return;
  try {
    CurrentCudaDevice current(device_.index());
    CudaLaunchContext context(device_, stream_);
    Timeline* timeline = device_.timeline();
    const bool recorded = timeline && timeline->is_recording() && operation.kind != OperationKind::release;
    Timed timed;
    if (recorded) {
      timed = {operation.name, std::exchange(waited_for_, {}), operation.kind, operation.bytes,
               std::make_shared<CudaEvent>(device_.index(), true), std::make_shared<CudaEvent>(device_.index(), true)};
      SW_CUDA(cudaEventRecord(timed.begin->native(), stream_));
    }
    operation.body(context);
    SW_CUDA(cudaGetLastError());
    if (recorded) {
      SW_CUDA(cudaEventRecord(timed.end->native(), stream_));
      timed_.push_back(std::move(timed));
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

Event CudaStream::record() {
  auto event = std::make_shared<CudaEvent>(device_.index(), false);
  event->recorded_after = last_enqueued_;
  event->failed = static_cast<bool>(error_);
  CurrentCudaDevice current(device_.index());
  SW_CUDA(cudaEventRecord(event->native(), stream_));
  return Event(event);
}

void CudaStream::wait(const Event& event) {
  if (!event.state()) return;
  waited_for_ = event.state()->recorded_after;
  if (auto* cuda_event = dynamic_cast<CudaEvent*>(event.state())) {
    if (cuda_event->failed)
      fail(std::make_exception_ptr(
          Error(ErrorClass::device, device_.name() + ": not run, because '" + cuda_event->recorded_after + "' failed")));
    CurrentCudaDevice current(device_.index());
    SW_CUDA(cudaStreamWaitEvent(stream_, cuda_event->native(), 0));
  } else {
    wait_for_host_event(event);
  }
}

void CudaStream::wait_for_host_event(const Event& event) {
  auto host_event = std::dynamic_pointer_cast<HostEvent>(event.shared_state());
  if (!host_event) throw Error(ErrorClass::internal, device_.name() + ": cannot wait for an event of this backend");
  CurrentCudaDevice current(device_.index());
  // The stream polls a pinned word, which the host's worker thread sets: no driver callback has to block.
  void* flag = nullptr;
  SW_CUDA(cudaHostAlloc(&flag, sizeof(std::uint32_t), cudaHostAllocMapped | cudaHostAllocPortable));
  flags_.push_back(flag);
  std::atomic_ref<std::uint32_t>(*static_cast<std::uint32_t*>(flag)).store(0);

  using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  SW_CUDA(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &entry, 12000, cudaEnableDefault, &found));
  if (!entry) throw Error(ErrorClass::device, device_.name() + ": the driver has no stream wait on memory; do not mix host and cuda");
  void* mapped = nullptr;
  SW_CUDA(cudaHostGetDevicePointer(&mapped, flag, 0));
  const CUresult result = reinterpret_cast<WaitValue>(entry)(
      reinterpret_cast<CUstream>(stream_), reinterpret_cast<CUdeviceptr>(mapped), 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (result != CUDA_SUCCESS)
    throw Error(ErrorClass::device, device_.name() + ": waiting for a host event failed; do not mix host and cuda here");
  host_event->on_signal([this, flag, state = host_event.get()] {
    if (state->failed()) upstream_failed_ = true;
    std::atomic_ref<std::uint32_t>(*static_cast<std::uint32_t*>(flag)).store(1);
  });
}

void CudaStream::flush_timeline() {
  Timeline* timeline = device_.timeline();
  for (const Timed& timed : timed_) {
    float begin_ms = 0, length_ms = 0;
    if (cudaEventElapsedTime(&begin_ms, origin_->native(), timed.begin->native()) != cudaSuccess ||
        cudaEventElapsedTime(&length_ms, timed.begin->native(), timed.end->native()) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    const double since_origin = std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_time_).count();
    const double begin = timeline->now() - since_origin + begin_ms * 1e-3;
    timeline->add({device_.name(), name(), timed.name, timed.kind, timed.bytes, begin, begin + length_ms * 1e-3,
                   timed.waited_for});
  }
  timed_.clear();
}

void CudaStream::synchronize() {
  {
    CurrentCudaDevice current(device_.index());
    try {
      SW_CUDA(cudaStreamSynchronize(stream_));
    } catch (...) {
      fail(std::current_exception());
    }
    flush_timeline();
  }
  if (upstream_failed_.exchange(false))
    fail(std::make_exception_ptr(Error(ErrorClass::device, device_.name() + ": not run, because host work before it failed")));
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::string CudaStream::error() {
  if (!error_) return {};
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace shardwise
