// A GPU for which a build has no code, simulated: the list of architectures and the capability are given.

#include "runtime/cuda_code.hpp"

#include <gtest/gtest.h>

#include "shardwise/runtime/error.hpp"

namespace shardwise {
namespace {

CudaCode code(const char* built, int major, int minor) {
  return cuda_code_for(built, {major, minor});
}

TEST(CudaCode, RealCodeRunsWithinItsMajorVersionFromItsMinorOn) {
  EXPECT_EQ(code("80-real", 8, 0), CudaCode::present);
  EXPECT_EQ(code("80-real", 8, 9), CudaCode::present);
  EXPECT_EQ(code("86-real", 8, 0), CudaCode::absent);
  EXPECT_EQ(code("80-real", 9, 0), CudaCode::absent);
  EXPECT_EQ(code("100-real", 10, 3), CudaCode::present);
  EXPECT_EQ(code("103-real", 10, 0), CudaCode::absent);
  EXPECT_EQ(code("100-real", 12, 0), CudaCode::absent);
}

TEST(CudaCode, PtxRunsOnEveryLaterGpu) {
  EXPECT_EQ(code("75-virtual", 12, 1), CudaCode::present);
  EXPECT_EQ(code("90-virtual", 8, 9), CudaCode::absent);
  EXPECT_EQ(code("90", 9, 0), CudaCode::present);
  EXPECT_EQ(code("90", 12, 0), CudaCode::present);
  EXPECT_EQ(code("90", 8, 9), CudaCode::absent);
}

TEST(CudaCode, SuffixesNarrow) {
  EXPECT_EQ(code("90a-real", 9, 0), CudaCode::present);
  EXPECT_EQ(code("90a", 10, 0), CudaCode::absent);
  EXPECT_EQ(code("100a-virtual", 10, 3), CudaCode::absent);
  EXPECT_EQ(code("100f", 10, 3), CudaCode::present);
  EXPECT_EQ(code("100f", 12, 0), CudaCode::absent);
}

TEST(CudaCode, ListsAndWords) {
  const char* full = "75-real,80-real,86-real,90-real,100-real,120-real,121-virtual";
  EXPECT_EQ(code(full, 7, 5), CudaCode::present);
  EXPECT_EQ(code(full, 8, 9), CudaCode::present);
  EXPECT_EQ(code(full, 13, 0), CudaCode::present);
  EXPECT_EQ(code(full, 11, 0), CudaCode::absent);
  EXPECT_EQ(code("native;90", 8, 0), CudaCode::unknown);
  EXPECT_EQ(code("native;90", 9, 0), CudaCode::present);
  EXPECT_EQ(code("all-major", 9, 0), CudaCode::unknown);
  EXPECT_EQ(code("90-cubin", 9, 0), CudaCode::unknown);
  EXPECT_EQ(code("", 9, 0), CudaCode::absent);
}

/// What open_devices() tells the owner of the GPU; empty where it is taken.
std::string refusal(const char* built, CudaCapability capability, bool loads) {
  DeviceInfo gpu;
  gpu.kind = PlatformKind::cuda;
  gpu.name = "cuda:1";
  gpu.model = "NVIDIA Test";
  try {
    require_cuda_code(gpu, capability, built, [loads] { return loads; });
  } catch (const Error& error) {
    EXPECT_EQ(error.error_class(), ErrorClass::usage);
    return error.what();
  }
  return "";
}

TEST(CudaCode, AGpuWithoutCodeIsRefusedWithItsSmAndTheLineThatMendsIt) {
  EXPECT_EQ(refusal("90-real,90-virtual", {8, 9}, false),
            "devices: cuda:1 (NVIDIA Test) is sm_89, for which this build has no code (built for "
            "90-real,90-virtual); configure with: cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES=89");
  // The list says no: the driver is not asked, so that nothing runs that was not meant for this GPU.
  EXPECT_NE(refusal("90-real", {12, 0}, true), "");
  EXPECT_EQ(refusal("90-real", {9, 0}, true), "");
  EXPECT_EQ(refusal("native", {9, 0}, true), "");
}

TEST(CudaCode, TheDriverHasTheLastWord) {
  EXPECT_EQ(
      refusal("90-virtual", {10, 0}, false),
      "devices: cuda:1 (NVIDIA Test) is sm_100, whose driver does not load the code of this build (built "
      "for 90-virtual); update the driver, or configure with: cmake --preset cuda "
      "-DCMAKE_CUDA_ARCHITECTURES=100");
  EXPECT_NE(refusal("native", {8, 6}, false).find("is sm_86, for which this build has no code"),
            std::string::npos);
}

TEST(CudaCode, OlderThanEveryBuildIsNoMatterOfConfiguring) {
  const std::string text = refusal("75-real", {6, 1}, false);
  EXPECT_NE(text.find("is sm_61; GPUs from sm_75 on are supported"), std::string::npos) << text;
  EXPECT_EQ(text.find("CMAKE_CUDA_ARCHITECTURES"), std::string::npos);
}

}  // namespace
}  // namespace shardwise
