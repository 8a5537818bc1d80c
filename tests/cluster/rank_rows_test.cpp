// Rows of several ranks, gathered, against those of one process.

#include "shardwise/dispatch/rank_rows.hpp"

#include "cluster/rank_fixture.hpp"
#include "rays/row_sweep.hpp"

namespace shardwise::testing {
namespace {

using namespace shardwise::test;

std::vector<std::byte> joined(const GatheredRows& rows) {
  std::vector<std::byte> all;
  for (const std::vector<std::byte>& column : rows.columns)
    all.insert(all.end(), column.begin(), column.end());
  return all;
}

TEST(RankRows, EveryOperationIsThatOfOneProcess) {
  Scene single(open_devices("host:1x1"), test_model());
  single.build();
  Scene scene(open_devices(ranks().rank() % 2 == 0 ? "host:2x1" : "host:1x1"), test_model());
  scene.build();
  for (const std::int64_t n : {1, 2, 37, 1000}) {
    const Batches batch(n, static_cast<unsigned>(n));
    for (const SourceKind kind : {SourceKind::on_master, SourceKind::on_host}) {
      RowOptions options;
      options.min_rows_per_device = 0;
      // Any ratio of weights, a rank without rows among them.
      const double weight = ranks().rank() == 1 && n == 37 ? 0 : 1 + 0.37 * ranks().rank();
      const Window mine = rank_rows(ranks(), n, weight);
      if (weight == 0) {
        EXPECT_TRUE(mine.empty());
      }
      Place place;
      place.kind = kind;
      place.part = [&](const RowSource& source) { return rows_of(source, n, mine); };
      for (const Op& op : all_operations()) {
        SCOPED_TRACE(op.name + ", rows " + std::to_string(n));
        const RowResult part = op.run(scene, batch, place, options, {});
        EXPECT_EQ(part.rows, mine.count);
        const GatheredRows all = to_rank0(ranks(), part);
        if (ranks().rank() != 0) {
          EXPECT_TRUE(all.columns.empty());
          continue;
        }
        const RowResult expected = op.run(single, batch, Place{}, {}, {});
        EXPECT_EQ(all.rows, n);
        EXPECT_EQ(all.rejected, expected.rejected);
        EXPECT_EQ(all.flagged, expected.flagged);
        EXPECT_TRUE(joined(all) == shardwise::test::bytes_of(*expected.table));
      }
    }
  }
}

TEST(RankRows, GeneratedRowsKeepTheirIndices) {
  constexpr std::int64_t n = 5000;
  Scene scene(open_devices("host:1x1"), test_model());
  scene.build();
  const RowSource whole = generated(random_rays(n, {-1, -1, -1}, {1, 1, 1}, 5));
  const Window mine = rank_rows(ranks(), n, 1);
  const GatheredRows all = to_rank0(ranks(), intersect(scene, rows_of(whole, n, mine)).get());
  const Intersections expected = intersect(scene, whole).get();
  if (ranks().rank() == 0) {
    EXPECT_EQ(all.column<float>(IntersectColumns::t), expected.t.to_host());
    EXPECT_EQ(all.column<std::int32_t>(IntersectColumns::global_prim_id), expected.global_prim_id.to_host());
  }
}

TEST(RankRows, RefusesWhatIsNoPart) {
  const std::vector<Vec3f> rows(10);
  const RowSource source = on_host(Rays{rows, rows, {}, {}});
  EXPECT_THROW(rows_of(source, 10, {5, 6}), Error);
  EXPECT_THROW(rows_of(source, 10, {-1, 2}), Error);
  EXPECT_THROW(rows_of(source, 7, {0, 7}), Error);
  RowSource resident = source;
  resident.kind = SourceKind::resident;
  EXPECT_THROW(rows_of(resident, 10, {0, 1}), Error);
  EXPECT_THROW(to_rank0(ranks(), RowResult{}), Error);
  const RankError error = agreed_error([] { rank_rows(ranks(), -1, 1); });
  EXPECT_EQ(error.error_class(), ErrorClass::usage);
  const RankError weights = agreed_error([] { rank_rows(ranks(), 10, 0); });
  EXPECT_EQ(weights.error_class(), ErrorClass::usage);
  ranks().barrier("in step");
}

}  // namespace
}  // namespace shardwise::testing
