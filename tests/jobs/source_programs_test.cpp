// CUDA source programs as far as no GPU is needed: the compiler, its errors, the kept code. Skipped where
// there is no NVRTC.

#include "jobs/source_programs.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "jobs/job_fixture.hpp"
#include "jobs/nvrtc.hpp"

namespace shardwise {
namespace {

using namespace test;
namespace fs = std::filesystem;

CudaSource doubling() {
  CudaSource source;
  source.name = "double.cu";
  source.text =
      "extern \"C\" __global__ void doubled(const float* in, float* out, int n) {\n"
      "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) out[i] = FACTOR * in[i];\n"
      "}\n";
  source.kernel = "doubled";
  source.options = {"-DFACTOR=2"};
  return source;
}

class SourceProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      Nvrtc::get();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    folder_ = fs::temp_directory_path() / ("shardwise-programs-" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<fs::path> kept() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    return files;
  }
  fs::path folder_;
};

TEST_F(SourceProgram, IsCompiledOnceAndKept) {
  const CudaSource source = doubling();
  SourcePrograms programs(folder_.string());
  const auto code = programs.code(source, "sm_90");
  EXPECT_EQ(code->substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_EQ(programs.code(source, "sm_90"), code);
  EXPECT_EQ(programs.counts().compiled, 1u);
  CudaSource other = source;
  other.options = {"-DFACTOR=3"};
  EXPECT_NE(*programs.code(other, "sm_90"), *code);
  EXPECT_NE(*programs.code(source, "sm_80"), *code);
  EXPECT_EQ(programs.counts().compiled, 3u);
  EXPECT_EQ(kept().size(), 3u);

  SourcePrograms again(folder_.string());
  EXPECT_EQ(*again.code(source, "sm_90"), *code);
  EXPECT_EQ(again.counts().compiled, 0u);
  EXPECT_EQ(again.counts().from_folder, 1u);
}

TEST_F(SourceProgram, DamagedKeptCodeIsCompiledAnew) {
  const CudaSource source = doubling();
  const std::string code = *SourcePrograms(folder_.string()).code(source, "sm_90");
  const fs::path file = kept().at(0);
  const auto size = fs::file_size(file);
  for (int round = 0; round < 3; ++round) {
    if (round == 0) fs::resize_file(file, size - 1);
    if (round == 1) std::ofstream(file) << "nonsense";
    if (round == 2) {
      std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
      damaged.seekp(static_cast<std::streamoff>(size / 2));
      damaged << "x!x";
    }
    SourcePrograms programs(folder_.string());
    EXPECT_EQ(*programs.code(source, "sm_90"), code) << "round " << round;
    EXPECT_EQ(programs.counts().damaged, 1u) << "round " << round;
    EXPECT_EQ(programs.counts().compiled, 1u);
    EXPECT_EQ(fs::file_size(file), size);
  }
}

TEST_F(SourceProgram, ErrorsShowTheLogAndTheLine) {
  CudaSource source = doubling();
  source.text += "\n__device__ int wrong = missing;\n";
  SourcePrograms programs("");
  for (int i = 0; i < 2; ++i)
    expect_error(
        [&] { programs.code(source, "sm_90"); }, ErrorClass::data,
        "CUDA source 'double.cu' does not compile for sm_90:\ndouble.cu(6): error: identifier \"missing\"");
  source = doubling();
  source.options.push_back("--no-such-option");
  expect_error([&] { programs.code(source, "sm_90"); }, ErrorClass::usage, "no-such-option");
  EXPECT_THROW(programs.code(doubling(), "sm_1"), Error);
}

TEST(SourceProgramOnHost, NeedsATwin) {
  CudaSource source = doubling();
  JobExecutor jobs(open_devices("host:1x1"));
  Job job;
  job.retries = 0;
  job.program = JobProgram::source(source);
  auto results = jobs.run({job});
  ASSERT_EQ(results[0].status, JobStatus::failed);
  EXPECT_EQ(results[0].error->error_class, ErrorClass::usage);
  EXPECT_NE(results[0].error->message.find("'double.cu:doubled' has no host twin, which a host device needs"),
            std::string::npos)
      << results[0].error->message;
  source.host_twin = [](JobContext& context) {
    const auto count = static_cast<std::int64_t>(context.input_bytes(0) / sizeof(float));
    const auto* in = context.input<float>(0);
    auto* out = static_cast<float*>(context.output_bytes(context.job().launch.output_bytes.at(0)));
    context.launch("doubled", count, [=](LaunchContext&) {
      for (std::int64_t i = 0; i < count; ++i) out[i] = 2 * in[i];
    });
  };
  job.program = JobProgram::source(source);
  job.inputs = {JobInput::copied(std::span<const float>(std::vector<float>{1, 2.5f}))};
  job.launch.output_bytes = {8};
  results = jobs.run({job});
  EXPECT_EQ(results[0].output<float>(0), (std::vector<float>{2, 5}));
  expect_error([] { JobProgram::source({}); }, ErrorClass::usage, "is empty");
  source.kernel.clear();
  expect_error([&] { JobProgram::source(source); }, ErrorClass::usage, "has no kernel name");
  JobOptions options;
  options.program_cache = "/proc/nowhere";
  expect_error([&] { JobExecutor::all("sim:1", options); }, ErrorClass::usage,
               "'/proc/nowhere' cannot be used");
}

}  // namespace
}  // namespace shardwise
