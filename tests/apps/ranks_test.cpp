// What a process finds out about its launcher, and which devices are a rank's share.

#include "ranks.hpp"

#include <gtest/gtest.h>

#include <map>

#include "rank_devices.hpp"
#include "shardwise/runtime/error.hpp"

namespace shardwise::program {
namespace {

std::optional<Launch> launch_in(const std::map<std::string, std::string>& environment) {
  return detect_launch([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launcher, IsFoundInTheEnvironment) {
  EXPECT_FALSE(launch_in({}));
  const auto open_mpi = launch_in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}});
  ASSERT_TRUE(open_mpi);
  EXPECT_EQ(open_mpi->launcher, "mpirun");
  EXPECT_EQ(open_mpi->rank, 2);
  EXPECT_EQ(open_mpi->size, 4);
  const auto hydra = launch_in({{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}});
  ASSERT_TRUE(hydra);
  EXPECT_EQ(hydra->launcher, "mpiexec");
  const auto slurm = launch_in({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "7"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->launcher, "srun");
  EXPECT_EQ(slurm->size, 8);
}

TEST(Launcher, WhatItSetsIsKnownFromWhatAUserSets) {
  for (const char* variable :
       {"OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=1", "PMIX_SERVER_URI41=x", "OMPI_MCA_orte_hnp_uri=x",
        "OMPI_MCA_ess=pmi", "PMI_RANK=0", "PMI_FD=5", "SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=8"})
    EXPECT_TRUE(is_of_launcher(variable)) << variable;
  for (const char* variable :
       {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_MCA_btl=tcp,self", "OMPI_MCA_rmaps_base_oversubscribe=1",
        "PATH=/bin", "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=a", "SHARDWISE_DEVICE=host:0",
        "MY_OMPI_COMM_WORLD_RANK=1"})
    EXPECT_FALSE(is_of_launcher(variable)) << variable;
}

TEST(Launcher, IsNotGuessed) {
  // A batch script runs once, whatever the job will start.
  EXPECT_FALSE(launch_in({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));
  EXPECT_FALSE(launch_in({{"OMPI_COMM_WORLD_SIZE", "4"}}));
  EXPECT_FALSE(launch_in({{"PMI_SIZE", "x"}, {"PMI_RANK", "0"}}));
  EXPECT_FALSE(launch_in({{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}}));
  EXPECT_FALSE(launch_in({{"PMI_SIZE", ""}, {"PMI_RANK", ""}}));
}

TEST(RankDevices, GpusAreSharedEqually) {
  const auto spec = [](int gpus, int rank, int size, const std::string& asked = {}) {
    return rank_devices(asked, {gpus, 64, 64, rank, size}, false);
  };
  EXPECT_EQ(spec(8, 0, 8), "cuda:0");
  EXPECT_EQ(spec(8, 7, 8), "cuda:7");
  EXPECT_EQ(spec(8, 1, 2), "cuda:4,5,6,7");
  EXPECT_EQ(spec(8, 0, 3), "cuda:0,1");
  EXPECT_EQ(spec(8, 2, 3), "cuda:5,6,7");
  EXPECT_EQ(spec(2, 1, 2, "cuda"), "cuda:1");
  EXPECT_EQ(spec(2, 1, 2, "cuda:0"), "cuda:0") << "what is said is meant";
  EXPECT_EQ(spec(2, 1, 2, "sim:3"), "sim:3");
}

TEST(RankDevices, MoreRanksThanGpusIsAnError) {
  const Machine crowded{2, 64, 64, 2, 3};
  for (const char* asked : {"", "cuda"}) {
    try {
      rank_devices(asked, crowded, false);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.error_class(), ErrorClass::usage);
      EXPECT_NE(std::string(error.what()).find("3 ranks"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("--share-gpus"), std::string::npos) << error.what();
    }
    EXPECT_EQ(rank_devices(asked, crowded, true), "cuda:0");
  }
}

TEST(RankDevices, CoresAreSharedUnlessTheLauncherDid) {
  EXPECT_EQ(rank_devices("", {0, 64, 64, 0, 4}, false), "host:1x16");
  EXPECT_EQ(rank_devices("", {0, 16, 64, 0, 4}, false), "host:1x16") << "bound to a quarter";
  EXPECT_EQ(rank_devices("", {0, 2, 2, 3, 4}, false), "host:1x1");
  EXPECT_EQ(rank_devices("host:2", {0, 64, 64, 0, 4}, false), "host:2x8");
  EXPECT_EQ(rank_devices("host:2x3", {0, 64, 64, 0, 4}, false), "host:2x3");
  EXPECT_EQ(rank_devices("host:x", {0, 64, 64, 0, 4}, false), "host:x") << "opening it says what is wrong";
}

}  // namespace
}  // namespace shardwise::program
