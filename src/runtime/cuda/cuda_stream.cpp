#include "runtime/cuda/cuda_stream.hpp"

#include "runtime/cuda/cuda_check.hpp"
#include "runtime/sim/sim_world.hpp"
#include "shardwise/runtime/error.hpp"
#include "shardwise/runtime/timeline.hpp"

namespace shardwise {

void CudaLaunchContext::no_host_code() {
  throw Error(ErrorClass::internal,
              device_.name() + ": a host loop was given to a GPU; this operation has no CUDA body");
}

CudaStream::CudaStream(CudaDevice& device, std::string name)
    : Stream(device, std::move(name)), device_(device) {
  CurrentCudaDevice current(device.index());
  SW_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  stager_ = std::make_unique<CudaStager>(device.index(), stream_);
  mark_origin();
}

void CudaStream::mark_origin() {
  origin_ = std::make_shared<CudaEvent>(device_.index(), true);
  origin_->record(stream_, false);
  SW_CUDA(cudaEventSynchronize(origin_->native()));
  origin_time_ = std::chrono::steady_clock::now();
}

CudaStream::~CudaStream() {
  if (helper_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_one();
    helper_.join();
  }
  int previous = 0;
  cudaGetDevice(&previous);
  cudaSetDevice(device_.index());
  cudaStreamSynchronize(stream_);
  stager_.reset();
  cudaStreamDestroy(stream_);
  cudaSetDevice(previous);
  cudaGetLastError();  // of a lost device: there is nobody to tell here
}

bool CudaStream::is_held_up() {
  if (!helper_.joinable()) return false;
  std::lock_guard lock(mutex_);
  return !queue_.empty() || busy_;
}

void CudaStream::push(Item item) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  if (helper_.joinable())
    work_.notify_one();
  else
    helper_ = std::thread([this] { run_helper(); });
}

void CudaStream::enqueue(Operation operation) {
  if (operation.kind != OperationKind::release) last_enqueued_ = operation.name;
  if (is_held_up()) return push({std::move(operation), nullptr, nullptr});
  enqueue_now(operation);
}

Event CudaStream::record(bool timed) {
  auto event = std::make_shared<CudaEvent>(device_.index(), timed);
  if (timed) mark_timed(*event);
  event->recorded_after = last_enqueued_;
  if (is_held_up()) {
    push({{}, event, nullptr});
  } else {
    event->record(stream_, has_error());
  }
  return Event(event);
}

void CudaStream::wait(const Event& event) {
  if (!event.state()) return;
  if (dynamic_cast<SimEvent*>(event.state()))
    throw_usage(device_.name() + ": a CUDA stream cannot wait for an event of a sim device ('" +
                event.state()->recorded_after + "'), which runs in no real time; use one kind of devices");
  const auto* on_gpu = dynamic_cast<CudaEvent*>(event.state());
  const bool can_be_told_now = on_gpu ? on_gpu->is_recorded() : event.is_signalled();
  if (!can_be_told_now || is_held_up())
    push({{}, nullptr, event.shared_state()});
  else
    wait_now(*event.state());
}

void CudaStream::wait_now(EventState& event) {
  waited_for_ = event.recorded_after;
  bool failed = false;
  if (auto* on_gpu = dynamic_cast<CudaEvent*>(&event)) {
    on_gpu->wait_until_recorded();
    failed = on_gpu->is_behind_error();
    SW_CUDA(cudaStreamWaitEvent(stream_, on_gpu->native(), 0));
  } else {
    event.wait_on_host();
    failed = event.failed();
  }
  if (failed)
    fail(std::make_exception_ptr(
        DependencyError(device_.name() + ": not run, because '" + event.recorded_after + "' failed")));
}

void CudaStream::enqueue_now(Operation& operation) {
  const bool releases = operation.kind == OperationKind::release;
  if (has_error() && !releases) return;
  try {
    CurrentCudaDevice current(device_.index());
    if (releases) {
      // Runs also behind an error: its memory is free either way.
      CudaLaunchContext context(device_, stream_, *stager_);
      operation.body(context);
    } else {
      launch(operation);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void CudaStream::launch(Operation& operation) {
  // An error left over from the caller's own CUDA calls is not this operation's. One that ends the process'
  // use of the GPU is said here, as what it is; others concern only the call that met them.
  const cudaError_t left_over = cudaGetLastError();
  if (left_over != cudaSuccess && severity(left_over) == CudaSeverity::fatal)
    throw_cuda(left_over, ("an earlier CUDA call, found before '" + operation.name + "'").c_str(), __FILE__,
               __LINE__);
  CudaLaunchContext context(device_, stream_, *stager_);
  Timeline* timeline = device_.timeline();
  const bool recorded = timeline && timeline->is_recording();
  std::string waited_for = std::exchange(waited_for_, {});
  Timed timed;
  if (recorded) {
    timed = {operation.name,
             std::move(waited_for),
             operation.kind,
             operation.bytes,
             std::make_shared<CudaEvent>(device_.index(), true),
             std::make_shared<CudaEvent>(device_.index(), true)};
    timed.begin->record(stream_, false);
  }
  operation.body(context);
  SW_CUDA(cudaGetLastError());
  if (recorded) {
    timed.end->record(stream_, false);
    timed_.push_back(std::move(timed));
  }
}

void CudaStream::run_item(Item& item) {
  try {
    if (item.signal) item.signal->record(stream_, has_error());
    // Waits happen also behind an error: an event that is signalled as failed is so only once all before it
    // is over.
    else if (item.wait_for)
      wait_now(*item.wait_for);
    else
      enqueue_now(item.operation);
  } catch (...) {
    fail(std::current_exception());
  }
}

void CudaStream::run_helper() {
  cudaSetDevice(device_.index());  // this thread's own; a failure shows in what is enqueued
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    busy_ = true;
    {
      Item item = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      run_item(item);
      // What the item holds is let go here, before the stream counts as idle.
    }
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

bool CudaStream::has_error() {
  std::lock_guard lock(mutex_);
  return static_cast<bool>(error_);
}

void CudaStream::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
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
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return queue_.empty() && !busy_; });
  }
  try {
    CurrentCudaDevice current(device_.index());
    SW_CUDA(cudaStreamSynchronize(stream_));
    flush_timeline();
  } catch (...) {
    fail(std::current_exception());
  }
  std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::string CudaStream::error() {
  std::lock_guard lock(mutex_);
  return error_text(error_);
}

}  // namespace shardwise
