#include "runtime/cuda/cuda_stream.hpp"

#include <cuda.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/host/host_stream.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/timeline.hpp"

namespace shardwise {

namespace {

/// Events with timing that nobody uses, by GPU. Never destroyed: events may outlive static objects. Reuse is
/// sound at any time: who waits for an event that is recorded anew waits for what it stood for before.
struct TimedEventPool {
  static constexpr std::size_t kept = 256;  ///< for each GPU
  std::mutex mutex;
  std::map<int, std::vector<cudaEvent_t>> idle;

  static TimedEventPool& instance() {
    static TimedEventPool* pool = new TimedEventPool;
    return *pool;
  }
  cudaEvent_t take(int device) {
    std::lock_guard lock(mutex);
    std::vector<cudaEvent_t>& events = idle[device];
    if (events.empty()) return nullptr;
    cudaEvent_t event = events.back();
    events.pop_back();
    return event;
  }
  /// Whether the pool took it.
  bool give(int device, cudaEvent_t event) {
    std::lock_guard lock(mutex);
    std::vector<cudaEvent_t>& events = idle[device];
    if (events.size() >= kept) return false;
    events.push_back(event);
    return true;
  }
};

}  // namespace

CudaEvent::CudaEvent(int device, bool timed) : device_(device), timed_(timed) {
  if (timed_) event_ = TimedEventPool::instance().take(device_);
  if (event_) return;
  CurrentCudaDevice current(device_);
  SW_CUDA(cudaEventCreateWithFlags(&event_, timed_ ? cudaEventDefault : cudaEventDisableTiming));
}

CudaEvent::~CudaEvent() {
  if (!event_) return;
  if (timed_ && TimedEventPool::instance().give(device_, event_)) return;
  if (cudaEventDestroy(event_) != cudaSuccess) cudaGetLastError();  // of a lost device
}

double CudaEvent::seconds_since(EventState& earlier) {
  CurrentCudaDevice current(device_);
  float milliseconds = 0;
  SW_CUDA(cudaEventElapsedTime(&milliseconds, dynamic_cast<CudaEvent&>(earlier).event_, event_));
  return milliseconds * 1e-3;
}

void CudaEvent::wait_on_host() {
  SW_CUDA(cudaEventSynchronize(event_));
}

bool CudaEvent::is_signalled() {
  const cudaError_t code = cudaEventQuery(event_);
  if (code != cudaSuccess) cudaGetLastError();  // "not ready" counts as an error of this thread, too
  return code != cudaErrorNotReady;
}

bool CudaEvent::failed() {
  const cudaError_t code = cudaEventQuery(event_);
  if (code != cudaSuccess) cudaGetLastError();
  return behind_error || (code != cudaSuccess && code != cudaErrorNotReady) ||
         std::any_of(upstream.begin(), upstream.end(),
                     [](const UpstreamFailure& failure) { return failure->load(); });
}

/// A block of zeroed pinned words. Shared by the stream that polls them and the host events that set them.
class CudaStream::PinnedWords {
 public:
  static constexpr std::size_t count = 1024;
  PinnedWords() {
    SW_CUDA(
        cudaHostAlloc(&memory_, count * sizeof(std::uint32_t), cudaHostAllocMapped | cudaHostAllocPortable));
  }
  ~PinnedWords() {
    if (cudaFreeHost(memory_) != cudaSuccess) cudaGetLastError();
  }
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;
  void store(std::size_t index, std::uint32_t value) {
    std::atomic_ref<std::uint32_t>(static_cast<std::uint32_t*>(memory_)[index]).store(value);
  }
  /// The word's address on the current GPU.
  CUdeviceptr address(std::size_t index) const {
    void* mapped = nullptr;
    SW_CUDA(cudaHostGetDevicePointer(&mapped, memory_, 0));
    return reinterpret_cast<CUdeviceptr>(mapped) + index * sizeof(std::uint32_t);
  }

 private:
  void* memory_ = nullptr;
};

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
    throw Error(ErrorClass::internal,
                device_.name() + ": a host loop was given to a GPU; this operation has no CUDA body");
  }

  CudaDevice& device_;
  cudaStream_t stream_;
};

}  // namespace

CudaStream::CudaStream(CudaDevice& device, std::string name)
    : Stream(device, std::move(name)), device_(device) {
  CurrentCudaDevice current(device.index());
  SW_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  mark_origin();
}

void CudaStream::mark_origin() {
  origin_ = std::make_shared<CudaEvent>(device_.index(), true);
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
  cudaSetDevice(previous);
  cudaGetLastError();  // of a lost device: there is nobody to tell here
}

void CudaStream::enqueue(Operation operation) {
  last_enqueued_ = operation.name;
  if (error_ && operation.kind != OperationKind::release) return;
  try {
    // An error left over from the caller's own CUDA calls is not this operation's. One that ends the process'
    // use of the GPU is said here, as what it is; others concern only the call that met them.
    const cudaError_t left_over = cudaGetLastError();
    if (left_over != cudaSuccess && severity(left_over) == CudaSeverity::fatal)
      throw_cuda(left_over, ("an earlier CUDA call, found before '" + operation.name + "'").c_str(), __FILE__,
                 __LINE__);
    CurrentCudaDevice current(device_.index());
    CudaLaunchContext context(device_, stream_);
    Timeline* timeline = device_.timeline();
    const bool recorded = timeline && timeline->is_recording() && operation.kind != OperationKind::release;
    std::string waited_for = std::exchange(waited_for_, {});
    Timed timed;
    if (recorded) {
      timed = {operation.name,
               std::move(waited_for),
               operation.kind,
               operation.bytes,
               std::make_shared<CudaEvent>(device_.index(), true),
               std::make_shared<CudaEvent>(device_.index(), true)};
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

Event CudaStream::record(bool timed) {
  auto event = std::make_shared<CudaEvent>(device_.index(), timed);
  if (timed) mark_timed(*event);
  event->recorded_after = last_enqueued_;
  event->behind_error = static_cast<bool>(error_);
  event->upstream = upstream_;
  CurrentCudaDevice current(device_.index());
  SW_CUDA(cudaEventRecord(event->native(), stream_));
  return Event(event);
}

void CudaStream::wait(const Event& event) {
  if (!event.state()) return;
  waited_for_ = event.state()->recorded_after;
  if (auto* cuda_event = dynamic_cast<CudaEvent*>(event.state())) {
    const bool failed = cuda_event->behind_error ||
                        std::any_of(cuda_event->upstream.begin(), cuda_event->upstream.end(),
                                    [](const UpstreamFailure& failure) { return failure->load(); });
    if (failed)
      fail(std::make_exception_ptr(DependencyError(device_.name() + ": not run, because '" +
                                                   cuda_event->recorded_after + "' failed")));
    for (const UpstreamFailure& failure : cuda_event->upstream) add_upstream(failure);
    CurrentCudaDevice current(device_.index());
    SW_CUDA(cudaStreamWaitEvent(stream_, cuda_event->native(), 0));
  } else {
    wait_for_host_event(event);
  }
}

void CudaStream::add_upstream(const UpstreamFailure& failure) {
  if (std::find(upstream_.begin(), upstream_.end(), failure) == upstream_.end()) upstream_.push_back(failure);
}

bool CudaStream::upstream_failed() const {
  return std::any_of(upstream_.begin(), upstream_.end(),
                     [](const UpstreamFailure& failure) { return failure->load(); });
}

void CudaStream::wait_for_host_event(const Event& event) {
  auto host_event = std::dynamic_pointer_cast<HostEvent>(event.shared_state());
  if (!host_event)
    throw_usage(device_.name() + ": a CUDA stream cannot wait for an event of a sim device ('" +
                event.state()->recorded_after + "'), which runs in no real time; use one kind of devices");
  if (host_event->is_signalled()) {
    if (host_event->failed())
      fail(std::make_exception_ptr(DependencyError(device_.name() + ": not run, because '" +
                                                   host_event->recorded_after + "' failed")));
    return;
  }

  using WaitValue = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  SW_CUDA(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &entry, 12000, cudaEnableDefault, &found));
  if (!entry)
    throw Error(ErrorClass::device,
                device_.name() + ": the driver has no stream wait on memory; do not mix host and cuda");

  // The stream polls a pinned word, which the host's worker thread sets: no driver callback has to block.
  CurrentCudaDevice current(device_.index());
  if (words_.empty() || words_used_ == PinnedWords::count) {
    words_.push_back(std::make_shared<PinnedWords>());
    words_used_ = 0;
  }
  const std::shared_ptr<PinnedWords> words = words_.back();
  const std::size_t word = words_used_++;
  words->store(word, 0);
  const CUresult result = reinterpret_cast<WaitValue>(entry)(
      reinterpret_cast<CUstream>(stream_), words->address(word), 1, CU_STREAM_WAIT_VALUE_GEQ);
  if (result != CUDA_SUCCESS)
    throw Error(ErrorClass::device, device_.name() + ": the stream cannot wait for host work (CUresult " +
                                        std::to_string(static_cast<int>(result)) +
                                        "); do not mix host and cuda here");
  auto failure = std::make_shared<std::atomic<bool>>(false);
  add_upstream(failure);
  host_event->on_signal([words, word, failure, state = host_event.get()] {
    if (state->failed()) failure->store(true);
    words->store(word, 1);
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
    const double since_origin =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_time_).count();
    const double begin = timeline->now() - since_origin + begin_ms * 1e-3;
    timeline->add({device_.name(), name(), timed.name, timed.kind, timed.bytes, begin,
                   begin + length_ms * 1e-3, timed.waited_for});
  }
  if (timed_.empty()) return;
  timed_.clear();
  // Elapsed times are floats in milliseconds: after ten seconds they are coarser than a microsecond.
  if (std::chrono::steady_clock::now() - origin_time_ > std::chrono::seconds(10)) mark_origin();
}

void CudaStream::synchronize() {
  try {
    CurrentCudaDevice current(device_.index());
    SW_CUDA(cudaStreamSynchronize(stream_));
    flush_timeline();
    // All waits have passed: the words can be used again.
    if (words_.size() > 1) words_.resize(1);
    words_used_ = 0;
  } catch (...) {
    fail(std::current_exception());
  }
  if (upstream_failed())
    fail(std::make_exception_ptr(
        DependencyError(device_.name() + ": not valid, because host work before it failed")));
  upstream_.clear();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::string CudaStream::error() {
  return error_text(error_);
}

}  // namespace shardwise
