// Bad input: every kind is refused with its exit code, one line, the value and where.

#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "run_program.hpp"

namespace shardwise::test {
namespace {

class BadInput : public ProgramTest {
 protected:
  std::string ply(const std::string& vertices, int vertex_count, const std::string& faces,
                  int face_count) const {
    write("bad.ply", "ply\nformat ascii 1.0\nelement vertex " + std::to_string(vertex_count) +
                         "\nproperty float x\nproperty float y\nproperty float z\nelement face " +
                         std::to_string(face_count) +
                         "\nproperty list uchar int vertex_indices\nend_header\n" + vertices + faces);
    return path("bad.ply");
  }
  Outcome coverage_of(const std::string& scene, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"coverage",  scene,      "--tx",       "0,0,5",
                                       "--samples", "10k",      "--material", "concrete",
                                       "--devices", "host:1x1", "--map",      path("m.npy")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  void TearDown() override {
    EXPECT_TRUE(leftovers().empty());
    ProgramTest::TearDown();
  }
};

TEST_F(BadInput, MissingFile) {
  expect_one_line_error(coverage_of(path("none.xml")), 3, "none.xml");
  expect_one_line_error(run({"scene", "info", path("none.ply")}), 3, "none.ply");
}

TEST_F(BadInput, TruncatedPly) {
  expect_one_line_error(coverage_of(ply("0 0 0\n1 0 0\n", 4, "", 2)), 3, "bad.ply");
}

TEST_F(BadInput, FaceIndexPastTheEnd) {
  const Outcome outcome = coverage_of(ply("0 0 0\n9 0 0\n0 9 0\n", 3, "3 0 1 7\n", 1));
  expect_one_line_error(outcome, 3, "7");
  expect_one_line_error(outcome, 3, "bad.ply");
}

TEST_F(BadInput, NanVertexIsDroppedOrFails) {
  const std::string scene =
      ply("-9 -9 0\n9 -9 0\n9 9 0\n-9 9 0\nnan 0 0\n", 5, "3 0 1 2\n3 0 2 3\n3 0 1 4\n", 3);
  const Outcome dropped = coverage_of(scene);
  EXPECT_EQ(dropped.code, 0) << dropped.err;
  EXPECT_NE(dropped.err.find("warning"), std::string::npos);
  EXPECT_NE(dropped.err.find("defects"), std::string::npos);
  expect_one_line_error(coverage_of(scene, {"--defects", "fail"}), 3, "4");
}

TEST_F(BadInput, UnknownMaterialsAndPluginsAllAtOnce) {
  box_scene();
  write("bad.xml",
        "<scene version=\"2.1.0\">\n"
        "<bsdf type=\"diffuse\" id=\"kryptonite\"/><bsdf type=\"diffuse\" id=\"unobtainium\"/>\n"
        "<shape type=\"ply\" id=\"first\"><string name=\"filename\" value=\"ground.ply\"/>"
        "<ref id=\"kryptonite\"/></shape>\n"
        "<shape type=\"ply\" id=\"second\"><string name=\"filename\" value=\"box.ply\"/>"
        "<ref id=\"unobtainium\"/></shape>\n"
        "<shape type=\"teapot\" id=\"third\"/>\n"
        "</scene>\n");
  const Outcome outcome = run({"scene", "info", path("bad.xml")});
  EXPECT_EQ(outcome.code, 3);
  for (const char* word : {"kryptonite", "unobtainium", "first", "second", "teapot"}) {
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << ": " << outcome.err;
  }
}

TEST_F(BadInput, EmptyScene) {
  write("empty.xml", "<scene version=\"2.1.0\"></scene>\n");
  expect_one_line_error(coverage_of(path("empty.xml")), 3, "no shapes");
  expect_one_line_error(coverage_of(ply("0 0 0\n1 0 0\n0 1 0\n", 3, "", 0)), 3, "no faces");
}

TEST_F(BadInput, TransmitterOutsideTheAreaIsAWarning) {
  const Outcome outcome = run(coverage({"--tx", "500,0,10"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: transmitter 1 (500, 0, 10) is outside"), std::string::npos)
      << outcome.err;
}

TEST_F(BadInput, AFrequencyWithoutItsUnitIsAWarning) {
  const Outcome outcome = run(coverage({"--frequency", "3.5"}));
  EXPECT_NE(outcome.err.find("warning: --frequency 3.5Hz is a wavelength of"), std::string::npos)
      << outcome.err;
}

TEST_F(BadInput, ManyWarningsOfTransmittersAreCounted) {
  std::vector<std::string> more;
  for (int i = 0; i < 40; ++i) more.insert(more.end(), {"--tx", std::to_string(500 + i) + ",0,10"});
  const Outcome outcome = run(coverage(more));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("30 more warnings like these"), std::string::npos) << outcome.err;
}

TEST_F(BadInput, NumbersThatMeanNothing) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad{
      {"--samples", {"0", "-5", "nan", "1.5", "many"}},
      {"--cell", {"0", "-1", "nan", "inf"}},
      {"--frequency", {"0", "-1GHz", "nan", "3.5XHz"}},
      {"--bounces", {"-1", "1.5"}},
      {"--passes", {"0", "-2"}},
      {"--height", {"nan", "roof+2", "ground+x", "attic+1"}},
      {"--plane", {"w=3", "z=", "3", "z=ground+1.5"}},
      {"--area", {"0,0,1", "5,0,0,5", "0,0,nan,1"}},
      {"--seed", {"-1", "x"}},
      {"--polarization", {"0,0,0", "sideways"}},
      {"--walls", {"brick"}},
      {"--accumulation", {"exakt"}},
      {"--tracer", {"optix"}},
      {"--weights", {"1,1", "0", "-1", "nan"}},
      {"--chunk", {"0", "-1"}},
      {"--memory", {"0", "lots"}},
      {"--min-rows", {"-1"}},
      {"--devices", {"host:0", "toaster", "cuda:97"}},
      {"--tx", {"1,2", "1,2,nan", "500,0,roof+3", "0,0,ground+x", "0,0,attic+1"}},
      {"--material", {"kryptonite"}},
      {"--defects", {"mend"}},
      {"--on-device-failure", {"shrug"}},
      {"--sim-faults", {"device 1 lunch 7 fails", "device 0 launch 1 fails"}},
  };
  const std::vector<std::string> base = coverage({"--map", path("m.npy")});
  for (const auto& [option, values] : bad) {
    for (const std::string& value : values) {
      std::vector<std::string> arguments = base;
      if (option == "--samples" || option == "--cell" || option == "--devices") {
        const auto place = std::find(arguments.begin(), arguments.end(), option);
        arguments.erase(place, place + 2);
      }
      arguments.push_back(option + "=" + value);
      SCOPED_TRACE(option + "=" + value);
      const Outcome outcome = run(arguments);
      expect_one_line_error(outcome, 2, "");
      EXPECT_FALSE(exists("m.npy"));
    }
  }
}

TEST_F(BadInput, WordingOfAUsageError) {
  const Outcome outcome = run(coverage({"--weights", "3,1"}));
  EXPECT_EQ(outcome.err,
            "shardwise: error: --weights has 2 numbers ('3,1') for 1 device; give one for each device\n");
}

TEST_F(BadInput, OptionsOfLaterVersionsAreRefusedByName) {
  for (const char* option : {"--diffraction", "--coherent", "--mode"}) {
    expect_one_line_error(run(coverage({option, "1"})), 2, std::string(option) + " is not in this version");
    expect_one_line_error(run(coverage({std::string(option) + "=1"})), 2, "not in this version");
  }
}

TEST_F(BadInput, OutputFolderIsMissingBeforeTheRun) {
  for (const char* option : {"--map", "--error-map", "--count-map", "--png", "--json", "--trace"}) {
    // The scene does not exist either: the output is looked at first.
    expect_one_line_error(run({"coverage", path("none.xml"), "--tx", "0,0,5", option, path("no/file.npy")}),
                          2, "does not exist");
    expect_one_line_error(run({"coverage", path("none.xml"), "--tx", "0,0,5", option, folder_.string()}), 2,
                          "is a folder");
  }
  expect_one_line_error(run(coverage({"--map", path("x"), "--count-map", path("x")})), 2, "same file");
  expect_one_line_error(run(coverage({"--map", "-"})), 2, "standard output");
  expect_one_line_error(run(coverage({"--passes", "1", "--error-map", path("x")})), 2, "two passes");
}

TEST_F(BadInput, FullDiskLeavesNothing) {
  const std::string disk = path("disk");
  std::filesystem::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=16k") != 0) {
    GTEST_SKIP() << "no small file system can be mounted here (" << std::strerror(errno) << ")";
  }
  const Outcome outcome = run(
      coverage({"--area=-50,-40,250,240", "--count-map", disk + "/count.npy", "--map", disk + "/map.npy"}));
  const bool empty = std::filesystem::is_empty(disk);
  umount(disk.c_str());
  EXPECT_TRUE(empty);
  expect_one_line_error(outcome, 1, "map.npy' (No space left on device)");
}

TEST_F(BadInput, FullDeviceIsAnIoError) {
  expect_one_line_error(run(coverage({"--map", "/dev/full"})), 1, "/dev/full");
}

}  // namespace
}  // namespace shardwise::test
