// Every event edge that a coverage call makes is needed: taken out, the race check names it. And many seeds
// of the schedule give one map.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <set>

#include "reference/library.hpp"
#include "scene/replica.hpp"

namespace shardwise {
namespace {

using namespace test;

TestScene small_room() {
  TestScene scene;
  scene.add_box({0, 0, 0}, {10, 8, 5}, scene.add_material({5.24, 0.12}));
  scene.add_box({4, 3, 0.5}, {6, 4.5, 2.5}, scene.add_material({1, 1e4}), 0.4);
  return scene;
}

/// One of the calls whose edges are tried.
struct Case {
  std::string name;
  Accumulation accumulation = Accumulation::exact;
  bool rows = false;
  bool field = false;
  int passes = 3;
  std::int64_t chunk = 40;
};

/// What the caller does with the replicas before and after the call.
enum class Caller {
  on_own_streams,  ///< writes each on its device's stream
  on_the_master,   ///< writes all on the master's stream
};

struct Outcome {
  std::string races;
  std::vector<ExecutorEdge> edges;
};

/// A call on sim:3, enqueued only: races are known from then on, whatever the schedule. The call's memory is
/// allocated and released in the order of the callers' streams, which the race check takes into account.
class EnqueuedCall {
 public:
  EnqueuedCall(const Case& c, Caller caller, int dropped)
      : caller_(caller), scene_(open_scene("sim:3", model_of(small_room()), 1, TracerChoice::bvh)) {
    scene_.executor().drop_edge(dropped);
    touch_replicas("caller writes replica");
    enqueue(c);
    touch_replicas("caller writes replica again");
  }
  void finish() {
    pending_.wait();
    for (const stream_ref& stream : scene_.executor().default_context().streams) stream->synchronize();
  }
  Outcome outcome() { return {races_of(scene_.devices()), scene_.executor().edges()}; }

 private:
  void touch_replicas(const char* name) {
    for (int d = 0; d < 3; ++d) {
      Operation operation;
      operation.name = name;
      Access write = scene_.replica(d).reads();
      write.mode = AccessMode::write;
      operation.accesses = {write};
      operation.body = [](LaunchContext&) {};
      const int on = caller_ == Caller::on_the_master ? 0 : d;
      scene_.executor().default_context().streams[static_cast<std::size_t>(on)]->enqueue(
          std::move(operation));
    }
  }

  void enqueue(const Case& c) {
    const CoverageGrid grid{2, 1.5, 0, 10, 0, 8, 5, 4};
    if (!c.rows) {
      CoverageOptions options;
      options.transmitters = {{{2.2, 2.1, 3.3}}, {{8.1, 6.2, 1.2}}};
      options.grid = grid;
      options.samples = 60 * c.passes;
      options.passes = c.passes;
      options.field = c.field;
      options.accumulation = c.accumulation;
      options.split = {{}, c.chunk, 0, 0};
      pending_ = coverage(scene_, options);
      return;
    }
    for (int i = 0; i < 300; ++i) {
      const double turns = i * 0.618033988749895;
      const SinCos a = sincos_turn(turns - std::floor(turns));
      origins_.push_back({2, 2, 3});
      directions_.push_back(
          {static_cast<float>(a.cos), static_cast<float>(a.sin), 0.01f * static_cast<float>(150 - i)});
    }
    AccumulateOptions options;
    options.grid = grid;
    options.solid_angle_per_ray = 0.01;
    options.field = c.field;
    options.accumulation = c.accumulation;
    options.split = {{}, c.chunk, 0, 0};
    RayRows rows;
    rows.origins = origins_;
    rows.directions = directions_;
    rows.polarizations = {&polarization_, 1};
    pending_ = accumulate_reflections(scene_, rows, options);
  }

  Caller caller_;
  Scene scene_;
  std::vector<Vec3f> origins_, directions_;
  Vec3f polarization_{0, 0, 1};
  Pending<CoverageResult> pending_;
};

/// The races of a call with an edge taken out. In a process of its own that ends before anything runs: what
/// runs in a wrong order may use memory that is released.
bool races_without(const Case& c, Caller caller, int dropped) {
  const pid_t child = fork();
  if (child == 0) {
    EnqueuedCall call(c, caller, dropped);
    _exit(call.outcome().races.empty() ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) > 1) {
    ADD_FAILURE() << "the process for edge " << dropped << " did not end well";
    return false;
  }
  return WEXITSTATUS(status) == 1;
}

/// Edges of the executor's contract that no declared access of these graphs can show, so the race check
/// cannot miss them. (In calls that scatter and gather rows it does: the executor's own tests find every
/// one.)
/// - A remote device's stream enters behind the master's caller. Here only the copy into the master's memory
///   touches what the master's caller ordered, and that copy is behind two streams with such an entry: one of
///   them alone is never missed.
/// - The master's caller leaves behind a remote device's last copy. That copy takes the device's counters to
///   host memory, which is no device's resource; the host waits for the copy's own event.
bool cannot_show(const std::string& edge) {
  for (const std::string device : {"sim:1", "sim:2"}) {
    for (const char* role : {"compute", "in"})
      if (edge == "caller of sim:0 -> " + device + "/" + role + " entry") return true;
    if (edge == device + "/out exit -> caller of sim:0") return true;
  }
  return false;
}

TEST(CoverageRaces, EveryEdgeIsFoundMissing) {
  const Case cases[] = {{"exact, 3 passes, 3 chunks a device"},
                        {"exact with field, one chunk", Accumulation::exact, false, true, 2, 0},
                        {"fast", Accumulation::fast},
                        {"ordered with field", Accumulation::ordered, false, true},
                        {"rows, exact", Accumulation::exact, true},
                        {"rows, ordered", Accumulation::ordered, true},
                        {"rows, one chunk", Accumulation::exact, true, false, 1, 0}};
  int found = 0, listed = 0;
  for (const Case& c : cases) {
    std::vector<ExecutorEdge> edges;
    for (const Caller caller : {Caller::on_own_streams, Caller::on_the_master}) {
      EnqueuedCall whole(c, caller, -1);
      whole.finish();
      ASSERT_EQ(whole.outcome().races, "") << c.name;
      edges = whole.outcome().edges;
    }
    std::map<std::string, std::pair<int, int>> table;  // kind of edge -> found, not found
    for (int k = 0; k < static_cast<int>(edges.size()); ++k) {
      const std::string edge = edges[static_cast<std::size_t>(k)].text();
      const bool hit =
          races_without(c, Caller::on_own_streams, k) || races_without(c, Caller::on_the_master, k);
      // One line a kind: "trace lanes 40..80" is "trace chunk".
      std::string kind = edge;
      for (std::size_t at; (at = kind.find("lanes ")) != std::string::npos;)
        kind.replace(at, kind.find(" on", at) - at, "chunk");
      ++(hit ? table[kind].first : table[kind].second);
      EXPECT_TRUE(hit || cannot_show(edge)) << c.name << ": not found missing: " << edge;
    }
    std::printf("%s: %zu edges\n", c.name.c_str(), edges.size());
    for (const auto& [kind, counts] : table) {
      found += counts.first;
      listed += counts.second;
      std::printf("  found %2d of %2d  %s\n", counts.first, counts.first + counts.second, kind.c_str());
    }
  }
  std::printf("all: %d found, %d that nothing here can show\n", found, listed);
  EXPECT_GT(found, 100);
  EXPECT_LE(listed, 6 * static_cast<int>(std::size(cases)));
}

TEST(CoverageRaces, FiftySeedsGiveOneMap) {
  std::set<std::uint64_t> orders;
  std::set<std::string> digests;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Scene scene = open_scene("sim:3", model_of(small_room()), seed);
    CoverageOptions options;
    options.transmitters = {{{2.2, 2.1, 3.3}}, {{8.1, 6.2, 1.2}}};
    options.grid = {2, 1.5, 0, 10, 0, 8, 10, 8};
    options.samples = 4000;
    options.split = {{}, 700, 0, 0};
    digests.insert(digest_of(coverage(scene, options).get()));
    EXPECT_EQ(races_of(scene.devices()), "") << "seed " << seed;
    orders.insert(scene.devices().sim_world()->take_order_hash());
  }
  std::printf("50 seeds of the schedule: %zu distinct orders, %zu map\n", orders.size(), digests.size());
  EXPECT_EQ(digests.size(), 1u);
  EXPECT_GT(orders.size(), 45u);
}

TEST(CoverageRaces, CallsInFlightTogetherAndBuildsBetween) {
  for (const char* devices : {"sim:3", "host:3x1"}) {
    Scene scene = open_scene(devices, model_of(small_room()));
    CoverageOptions options;
    options.transmitters = {{{2.2, 2.1, 3.3}}};
    options.grid = {2, 1.5, 0, 10, 0, 8, 10, 8};
    options.samples = 4000;
    options.split.min_rows_per_device = 0;
    const std::string want = digest_of(coverage(scene, options).get());
    for (int round = 0; round < 5; ++round) {
      Pending<CoverageResult> a = coverage(scene, options), b = coverage(scene, options);
      scene.build();  // uploads over what both read
      Pending<CoverageResult> c = coverage(scene, options);
      EXPECT_EQ(digest_of(b.get()), want);
      EXPECT_EQ(digest_of(c.get()), want);
      EXPECT_EQ(digest_of(a.get()), want);
    }
    EXPECT_EQ(races_of(scene.devices()), "");
  }
}

}  // namespace
}  // namespace shardwise
