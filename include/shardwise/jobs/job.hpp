#pragma once
// Independent jobs: what one is, what its program sees on the device, and how it ends.
//
//   const JobProgram square = JobProgram::native("square", [](JobContext& job) {
//     const float* in = job.input<float>(0);
//     const auto count = static_cast<std::int64_t>(job.input_bytes(0) / sizeof(float));
//     float* out = job.output<float>(static_cast<std::uint64_t>(count));
//     job.launch("square", count, [=](LaunchContext& c) {  // on a GPU: a kernel on c.native_stream()
//       c.parallel_for(count, 4096, [=](std::int64_t begin, std::int64_t end) {
//         for (std::int64_t i = begin; i < end; ++i) out[i] = in[i] * in[i];
//       });
//     });
//   });

#include <any>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shardwise/runtime/devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise {

struct Job;
class WarmStore;

/// What a program sees of its job on one device. Lives as long as the call of the program: what runs on the
/// stream later captures pointers, not this. Belongs to the thread that calls the program.
class JobContext {
 public:
  virtual ~JobContext() = default;
  JobContext(const JobContext&) = delete;
  JobContext& operator=(const JobContext&) = delete;

  virtual const Job& job() const = 0;
  virtual Device& device() const = 0;
  /// The index of device() in the executor's set.
  virtual int device_index() const = 0;
  /// The device alone, for calls that want a set.
  virtual const DeviceSet& devices() const = 0;
  /// In-order; the job is done when it has come to the end of what the program enqueued here.
  virtual Stream& stream() const = 0;

  /// Inputs on the device, there when the stream comes to what the program enqueues. Throws a usage Error for
  /// an index that is not there.
  virtual const void* input_data(std::size_t index) const = 0;
  virtual std::uint64_t input_bytes(std::size_t index) const = 0;
  template <class T>
  const T* input(std::size_t index) const {
    return static_cast<const T*>(input_data(index));
  }

  /// Device memory that is copied to JobResult::outputs once the stream has come to the end; outputs are in
  /// the order of the calls, seven at most. Throws a memory Error where there is none left.
  virtual void* output_bytes(std::uint64_t bytes) = 0;
  template <class T>
  T* output(std::uint64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<T*>(output_bytes(count * sizeof(T)));
  }

  /// Enqueues a launch that reads the inputs and reads and writes the outputs made so far. `items` is what it
  /// works on, for the timeline and sim's clock.
  virtual void launch(std::string name, std::int64_t items, std::function<void(LaunchContext&)> body) = 0;

  /// Whether the job need not go on: the executor was cancelled, or gave this attempt up. Long programs ask.
  virtual bool is_cancelled() const = 0;

  /// Anything for JobResult::value, for callers in this process. That of the attempt that counts is kept.
  virtual void set_value(std::any value) = 0;

  /// For DeviceCache.
  virtual WarmStore& warm_store() = 0;
  virtual void hold(std::shared_ptr<void> value) = 0;

 protected:
  JobContext() = default;
};

using NativeProgram = std::function<void(JobContext&)>;

/// CUDA C++ text, compiled when it is first needed for each architecture (NVRTC) and kept in memory and, with
/// JobOptions::program_cache, in a folder.
struct CudaSource {
  std::string name = "job.cu";  ///< of the file, for messages
  std::string text;
  /// Declared `extern "C" __global__ void kernel(inputs..., outputs..., scalars...)`: a pointer for each
  /// input and output, then the job's scalars by value.
  std::string kernel;
  std::vector<std::string> options;  ///< for the compiler: "-DN=4", "-I/folder"
  NativeProgram host_twin;           ///< runs on host and sim devices; without it they refuse the program
};

/// A program, shared by the jobs that run it. Cheap to copy; copies are the same program.
class JobProgram {
 public:
  struct State;

  JobProgram() = default;
  /// `blocks`: the callable does its work itself before it returns (a child process, a call on a scene), in
  /// place of enqueuing it; then no second job is begun beside it.
  static JobProgram native(std::string name, NativeProgram program, bool blocks = false);
  static JobProgram source(CudaSource source);

  const State* state() const { return state_.get(); }
  const std::string& name() const;

 private:
  explicit JobProgram(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// Bytes in host memory. Borrowed ones stay alive and unchanged until the job has ended; where that was by
/// its timeout, a device may still be reading them until its state is ok again or the executor is gone.
class JobInput {
 public:
  static JobInput owned(std::vector<std::byte> bytes) {
    JobInput input;
    input.owned_ = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    input.bytes_ = *input.owned_;
    return input;
  }
  template <class T>
  static JobInput copied(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    return owned({bytes.begin(), bytes.end()});
  }
  template <class T>
  static JobInput borrowed(std::span<const T> values) {
    JobInput input;
    input.bytes_ = std::as_bytes(values);
    return input;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::shared_ptr<const std::vector<std::byte>> owned_;
  std::span<const std::byte> bytes_;
};

/// Of a CUDA source program.
struct JobLaunch {
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;
  std::vector<std::uint64_t> output_bytes;      ///< one for each output
  std::vector<std::vector<std::byte>> scalars;  ///< by value, in order; see job_scalar()
};

template <class T>
std::vector<std::byte> job_scalar(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

struct Job {
  std::string id;          ///< unique in a batch; empty: "job N", N its index
  std::string key;         ///< of content placement, and of what its DeviceCaches keep; may be empty
  std::uint64_t cost = 1;  ///< an estimate in any unit, at least 1
  std::uint64_t bytes =
      0;  ///< that it needs on the device besides what DeviceCaches keep: it starts when they are free
  std::vector<JobInput> inputs;
  JobProgram program;
  JobLaunch launch;
  std::optional<double> timeout_s;  ///< none: JobOptions::timeout_s
  std::optional<int> retries;       ///< after a failure; none: JobOptions::retries
  std::optional<int> device;        ///< runs there and nowhere else
  /// Asked on the worker when the job is about to begin; false: it ends as cancelled. For callers that share
  /// work with other processes. What it throws is the job's failure.
  std::function<bool()> admit;
};

enum class JobStatus { done, failed, cancelled };
const char* to_string(JobStatus status) noexcept;

struct JobError {
  ErrorClass error_class = ErrorClass::internal;
  std::string message;  ///< names job and device
};

struct JobResult {
  std::string id;
  JobStatus status = JobStatus::cancelled;
  std::string device;  ///< of the last attempt; empty: none was made
  int attempts = 0;
  double queued_s = 0;  ///< from being given to the beginning of the last attempt
  double run_s = 0;     ///< of the last attempt; its share of a group
  std::vector<std::vector<std::byte>> outputs;
  std::any value;                 ///< what the program set
  std::optional<JobError> error;  ///< with failed and cancelled

  /// An output as values. Throws a state Error where the job is not done, a usage Error where there is no
  /// such output or its bytes are no whole number of T.
  template <class T>
  std::vector<T> output(std::size_t index) const {
    const std::vector<std::byte>& bytes = checked_output(index, sizeof(T));
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  const std::vector<std::byte>& checked_output(std::size_t index, std::size_t size) const;
};

}  // namespace shardwise
