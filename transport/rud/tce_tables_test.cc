#include "transport/rud/tce_tables.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/random.h"
#include "transport/mem/mr_table.h"

namespace urnic::rud {
namespace {

constexpr uint32_t kJob = 7;
constexpr uint32_t kAll =
    mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead;
constexpr uint64_t kBase = uint64_t{1} << 40;  // nothing is mapped here
constexpr PageSize kSizes[] = {PageSize::k4K, PageSize::k64K, PageSize::k2M,
                               PageSize::k1G};

class TceTablesTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kEntries = 16;  // per table

  std::optional<Pvo> Register(uint64_t address, uint64_t length,
                              uint32_t job = kJob,
                              PageSize size = PageSize::k4K) {
    return tables_.Register(job, address, length, kAll, size);
  }
  std::optional<Pvo> RegisterPages(uint64_t pages) {
    return Register(kBase, pages * 4096);
  }
  PvoFault FaultOf(Pvo pvo, uint64_t bytes, uint32_t job = kJob) const {
    return tables_.Check(job, pvo, bytes, mem::kRemoteWrite).fault;
  }

  std::vector<Tce> storage_ = std::vector<Tce>(TceTables::kTables * kEntries);
  TceTables tables_{storage_, 1};
};

TEST_F(TceTablesTest, EachPageSizeIsExactToTheByte) {
  for (const PageSize size : kSizes) {
    const uint64_t page = uint64_t{1} << PageShift(size);
    // Neither begin nor end is aligned.
    const uint64_t begin = kBase + page - 3;
    const uint64_t bytes = page + 10;  // in three pages
    const Pvo pvo = Register(begin, bytes, kJob, size).value();
    for (const uint64_t at : {uint64_t{0}, uint64_t{2}, uint64_t{3},
                              uint64_t{4}, page + 2, page + 3, bytes - 1}) {
      const PvoTranslation found =
          tables_.Check(kJob, {pvo.value + at}, bytes - at, kAll);
      EXPECT_EQ(found.fault, PvoFault::kNone);
      EXPECT_EQ(found.address, begin + at);
      EXPECT_EQ(FaultOf({pvo.value + at}, bytes - at + 1), PvoFault::kBounds);
    }
    EXPECT_EQ(FaultOf({pvo.value - 1}, 1), PvoFault::kBounds);
    EXPECT_EQ(FaultOf({pvo.value + bytes}, 0), PvoFault::kNone);
    EXPECT_EQ(FaultOf({pvo.value + bytes}, 1), PvoFault::kBounds);
    EXPECT_EQ(FaultOf({pvo.value + bytes + 1}, 0), PvoFault::kBounds);
    EXPECT_EQ(FaultOf({pvo.value + 3 * page}, 0), PvoFault::kKey);
    EXPECT_EQ(FaultOf(pvo, UINT64_MAX), PvoFault::kBounds);
  }
}

TEST_F(TceTablesTest, ARegistrationThatEndsWithItsPageHasNoEntryBehindIt) {
  const Pvo pvo = Register(kBase, 4096).value();
  EXPECT_EQ(FaultOf({pvo.value + 4095}, 1), PvoFault::kNone);
  EXPECT_EQ(FaultOf({pvo.value + 4096}, 0), PvoFault::kKey);
}

TEST_F(TceTablesTest, TheRightsAreThoseOfTheRegistration) {
  const Pvo pvo =
      tables_.Register(kJob, kBase, 64, mem::kRemoteRead, PageSize::k4K)
          .value();
  EXPECT_EQ(tables_.Check(kJob, pvo, 64, mem::kRemoteRead).fault,
            PvoFault::kNone);
  EXPECT_EQ(tables_.Check(kJob, pvo, 64, mem::kLocalRead).fault,
            PvoFault::kNone);
  EXPECT_EQ(tables_.Check(kJob, pvo, 64, mem::kRemoteWrite).fault,
            PvoFault::kRights);
  EXPECT_EQ(tables_.Check(kJob, pvo, 64, mem::kLocalWrite).fault,
            PvoFault::kRights);
}

// Owner, key, bounds, rights: the first one that is wrong is reported.
TEST_F(TceTablesTest, TheChecksHaveAnOrder) {
  const Pvo pvo =
      tables_.Register(kJob, kBase, 64, mem::kRemoteRead, PageSize::k4K)
          .value();
  const Pvo wrong_key = Pvo::Make(pvo.key() ^ 1, pvo.table(), pvo.offset());
  EXPECT_EQ(FaultOf(wrong_key, 65, kJob + 1), PvoFault::kOwner);
  EXPECT_EQ(FaultOf(wrong_key, 65, 0), PvoFault::kOwner);
  EXPECT_EQ(FaultOf(wrong_key, 65), PvoFault::kKey);
  EXPECT_EQ(FaultOf(pvo, 65), PvoFault::kBounds);
  EXPECT_EQ(FaultOf(pvo, 64), PvoFault::kRights);
  EXPECT_EQ(FaultOf(Pvo::Make(pvo.key(), 31, 0), 1), PvoFault::kOwner);
  EXPECT_EQ(FaultOf(Pvo::Make(pvo.key(), pvo.table(),
                              (uint64_t{1} << Pvo::kOffsetBits) - 1),
                    1),
            PvoFault::kKey);
  // A free entry has the key 0.
  EXPECT_EQ(FaultOf(Pvo::Make(0, pvo.table(), 4096), 0), PvoFault::kKey);
}

TEST_F(TceTablesTest, TheFirstHoleThatIsLargeEnoughIsTaken) {
  std::vector<Pvo> pvos;
  for (const uint64_t pages : {2, 3, 2, 4, 5}) {
    pvos.push_back(RegisterPages(pages).value());
    EXPECT_EQ(pvos.back().table(), 0u);
  }
  EXPECT_TRUE(tables_.Deregister(kJob, pvos[0]));
  EXPECT_TRUE(tables_.Deregister(kJob, pvos[3]));
  tables_.Reclaim();
  EXPECT_EQ(RegisterPages(3)->offset(), 7 * 4096u);
  EXPECT_EQ(RegisterPages(2)->offset(), 0u);
  EXPECT_EQ(RegisterPages(1)->offset(), 10 * 4096u);
  // The table is full, so another one is used.
  EXPECT_EQ(RegisterPages(1)->table(), 1u);
}

TEST_F(TceTablesTest, NeighboursThatAreFreedMakeOneHole) {
  const Pvo first = RegisterPages(5).value();
  const Pvo second = RegisterPages(6).value();
  ASSERT_TRUE(RegisterPages(5).has_value());
  EXPECT_TRUE(tables_.Deregister(kJob, first));
  EXPECT_TRUE(tables_.Deregister(kJob, second));
  tables_.Reclaim();
  EXPECT_EQ(RegisterPages(11)->offset(), 0u);
}

TEST_F(TceTablesTest, ARegistrationThatIsTooLongForATableIsRefused) {
  EXPECT_FALSE(RegisterPages(kEntries + 1).has_value());
  EXPECT_FALSE(Register(kBase + 1, kEntries * 4096).has_value());
  EXPECT_FALSE(Register(1, UINT64_MAX - 1).has_value());
  // None of these has taken a table.
  for (uint32_t i = 0; i < TceTables::kTables; ++i)
    EXPECT_TRUE(Register(kBase, kEntries * 4096, i + 1).has_value());
}

// 4096 pages of 1 GB use all offset bits of a PVO.
TEST(TceTables, AnOffsetNeverReachesTheBitsOfTheTable) {
  std::vector<Tce> storage(size_t{TceTables::kTables} * 4098);
  TceTables tables(storage, 1);
  const uint64_t page = uint64_t{1} << 30;
  EXPECT_FALSE(tables.Register(kJob, page, 4097 * page, kAll, PageSize::k1G)
                   .has_value());
  const Pvo pvo =
      tables.Register(kJob, page, 4096 * page, kAll, PageSize::k1G).value();
  const PvoTranslation last =
      tables.Check(kJob, {pvo.value + 4096 * page - 1}, 1, kAll);
  EXPECT_EQ(last.fault, PvoFault::kNone);
  EXPECT_EQ(last.address, 4097 * page - 1);
  EXPECT_EQ(tables.Check(kJob, {pvo.value + 4096 * page}, 1, kAll).fault,
            PvoFault::kOwner);
  EXPECT_EQ(tables.Register(kJob, page, page, kAll, PageSize::k1G)->table(),
            1u);
}

TEST_F(TceTablesTest, AllTablesMayBeInUse) {
  std::set<uint32_t> used;
  for (uint32_t i = 0; i < TceTables::kTables; ++i)
    used.insert(Register(kBase, 64, kJob + i)->table());
  EXPECT_EQ(used.size(), TceTables::kTables);
  EXPECT_FALSE(Register(kBase, 64, 1000).has_value());
  // A job that has a table may use it, but only with its page size.
  EXPECT_TRUE(Register(kBase, 64, kJob).has_value());
  EXPECT_FALSE(Register(kBase, 64, kJob, PageSize::k64K).has_value());
  tables_.Disown(kJob + 9);
  EXPECT_FALSE(Register(kBase, 64, kJob, PageSize::k64K).has_value())
      << "perhaps somebody still uses it";
  tables_.Reclaim();
  EXPECT_TRUE(Register(kBase, 64, kJob, PageSize::k64K).has_value());
}

TEST_F(TceTablesTest, PagesOfEachSizeHaveATableOfTheirOwn) {
  std::set<uint32_t> used;
  for (const PageSize size : kSizes)
    used.insert(Register(kBase, 64, kJob, size)->table());
  EXPECT_EQ(used.size(), kPageSizes);
}

TEST_F(TceTablesTest, AKeyIsNeverZeroAndOldOnesStayWrong) {
  std::optional<Pvo> last;
  for (uint32_t i = 0; i < (1u << Pvo::kKeyBits) + 10; ++i) {
    const Pvo pvo = Register(kBase, 64).value();
    ASSERT_NE(pvo.key(), 0u);
    ASSERT_EQ(FaultOf(pvo, 64), PvoFault::kNone);
    if (last.has_value()) {
      ASSERT_EQ(FaultOf(*last, 64), PvoFault::kKey);
    }
    ASSERT_TRUE(tables_.Deregister(kJob, pvo));
    ASSERT_EQ(FaultOf(pvo, 64), PvoFault::kKey);
    tables_.Reclaim();
    last = pvo;
  }
}

TEST_F(TceTablesTest, KeysOfTwoIncarnationsDiffer) {
  std::vector<Tce> storage(storage_.size());
  TceTables again(storage, 2);
  for (uint32_t job = 1; job <= TceTables::kTables; ++job) {
    const Pvo pvo = Register(kBase, 64, job).value();
    EXPECT_NE(again.Register(job, kBase, 64, kAll, PageSize::k4K), pvo);
    EXPECT_EQ(again.Check(job, pvo, 64, kAll).fault, PvoFault::kKey);
  }
}

TEST_F(TceTablesTest, OnlyTheFirstByteOfOwnMemoryIsDeregistered) {
  const Pvo pvo = Register(kBase + 100, 3 * 4096).value();
  EXPECT_FALSE(tables_.Deregister(kJob + 1, pvo));
  EXPECT_FALSE(tables_.Deregister(0, pvo));
  EXPECT_FALSE(tables_.Deregister(kJob, {pvo.value + 1}));
  EXPECT_FALSE(tables_.Deregister(kJob, {pvo.value - 1}));
  EXPECT_FALSE(tables_.Deregister(kJob, {pvo.value + 4096}));
  EXPECT_FALSE(tables_.Deregister(
      kJob, Pvo::Make(pvo.key() ^ 1, pvo.table(), pvo.offset())));
  EXPECT_FALSE(tables_.Deregister(kJob, {}));
  EXPECT_EQ(FaultOf(pvo, 3 * 4096), PvoFault::kNone);
  EXPECT_TRUE(tables_.Deregister(kJob, pvo));
  EXPECT_FALSE(tables_.Deregister(kJob, pvo));
}

TEST_F(TceTablesTest, AJobThatIsGoneHasNoTables) {
  const Pvo first = Register(kBase, 4096).value();
  const Pvo second = Register(kBase, 4096, kJob, PageSize::k2M).value();
  const Pvo other = Register(kBase, 4096, kJob + 1).value();
  tables_.Disown(kJob);
  tables_.Disown(0);
  tables_.Reclaim();
  EXPECT_EQ(FaultOf(first, 1), PvoFault::kOwner);
  EXPECT_EQ(FaultOf(second, 1), PvoFault::kOwner);
  EXPECT_EQ(FaultOf(other, 1, kJob + 1), PvoFault::kNone);
  // The next owner of the table has another page size, and the previous owner's
  // PVOs are invalid.
  const Pvo next = Register(kBase, 4096, kJob + 2, PageSize::k64K).value();
  EXPECT_EQ(next.table(), first.table());
  EXPECT_EQ(FaultOf(first, 1, kJob + 2), PvoFault::kKey);
}

// Random registrations, compared with a model that looks at all of them.
TEST_F(TceTablesTest, ItAgreesWithANaiveModel) {
  struct Registration {
    Pvo pvo;
    uint64_t begin, bytes, page;
    uint32_t job;
  };
  testing::Random random(7);
  std::vector<Registration> all;
  uint64_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto job = static_cast<uint32_t>(1 + random.Below(3));
    const uint64_t what = random.Below(100);
    if (random.OneIn(5)) tables_.Reclaim();
    if (what < 30) {
      const PageSize size = kSizes[random.Below(2)];
      const uint64_t begin = kBase + random.Below(1 << 20);
      const uint64_t bytes = 1 + random.Below(1 << 15);
      const auto pvo = tables_.Register(job, begin, bytes, kAll, size);
      if (!pvo.has_value()) continue;
      all.push_back({*pvo, begin, bytes, uint64_t{1} << PageShift(size), job});
    } else if (what < 55 && !all.empty()) {
      const auto it =
          all.begin() + static_cast<int64_t>(random.Below(all.size()));
      ASSERT_TRUE(tables_.Deregister(it->job, it->pvo));
      all.erase(it);
    } else if (what == 99 && random.OneIn(20)) {
      tables_.Disown(job);
      std::erase_if(all, [&](const auto& each) { return each.job == job; });
    } else if (!all.empty()) {
      // Around the bounds of a registration, perhaps into another one.
      const Registration& near = all[random.Below(all.size())];
      const uint64_t at = near.pvo.value + random.Below(near.bytes + 20000) -
                          random.Below(9000);
      const uint64_t bytes = random.Below(3000);
      const PvoTranslation found = tables_.Check(job, {at}, bytes, kAll);
      bool may = false;
      for (const Registration& each : all) {
        const uint64_t offset = at - each.pvo.value;
        if (each.job != job || offset > each.bytes ||
            bytes > each.bytes - offset) {
          continue;
        }
        // The byte behind the last one may be in a page without an entry.
        if (offset == each.bytes && (each.begin + offset) % each.page == 0)
          continue;
        may = true;
        ASSERT_EQ(found.address, each.begin + offset);
      }
      ASSERT_EQ(found.fault == PvoFault::kNone, may);
      accepted += may;
    }
  }
  EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace urnic::rud
