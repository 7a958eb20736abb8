#include "datapath/engine/number_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <unordered_map>
#include <vector>

namespace urnic {
namespace {

constexpr NumberKey kKey = {{0x1234, 0x5678}};

struct Thing {
  uint32_t number = 0;
};

constexpr auto kNoneBusy = [](uint32_t) { return false; };

class NumberTableTest : public ::testing::Test {
 protected:
  Thing* Make(NumberTable<Thing>& table) {
    const auto number = table.Draw(kNoneBusy);
    if (!number.has_value()) return nullptr;
    auto& thing = things_[*number];
    EXPECT_EQ(thing, nullptr) << "a number that somebody has";
    thing = std::make_unique<Thing>(Thing{*number});
    table.Add(*number, thing.get());
    return thing.get();
  }
  void Destroy(NumberTable<Thing>& table, uint32_t number) {
    table.Remove(number);
    things_.erase(number);
  }
  void ExpectAllFound(const NumberTable<Thing>& table) {
    EXPECT_EQ(table.size(), things_.size());
    for (const auto& [number, thing] : things_) {
      ASSERT_EQ(table.Find(number), thing.get());
    }
    size_t count = 0;
    table.ForEach([&](Thing& thing) {
      ++count;
      ASSERT_EQ(things_[thing.number].get(), &thing);
    });
    EXPECT_EQ(count, things_.size());
  }

  std::unordered_map<uint32_t, std::unique_ptr<Thing>> things_;
  LocalLessor lessor_;
};

TEST_F(NumberTableTest, FindsItsObjectsWhileItGrowsAndShrinks) {
  OfferNumbersOf(5, lessor_);
  NumberTable<Thing> table(1 << 16, &lessor_, NumberSpace::kQpn, kKey);
  for (int n = 0; n < 20000; ++n) {
    Thing* const thing = Make(table);
    ASSERT_NE(thing, nullptr);
    ASSERT_EQ(thing->number >> kIndexBits, 5u);
    ASSERT_EQ(table.Find(thing->number ^ 1u << (n % 24)) == thing, false);
    if (n % 3 == 0) Destroy(table, thing->number);
    if (n % 1000 == 0) ExpectAllFound(table);
  }
  ExpectAllFound(table);
  const auto all = std::move(things_);
  for (const auto& [number, thing] : all) table.Remove(number);
  things_.clear();
  ExpectAllFound(table);
}

TEST_F(NumberTableTest, RefusesBusyNumbersAndMoreThanItsLimit) {
  OfferNumbersOf(0, lessor_);
  NumberTable<Thing> table(3, &lessor_, NumberSpace::kQpn, kKey);
  EXPECT_FALSE(table.Draw([](uint32_t) { return true; }).has_value());
  for (int n = 0; n < 3; ++n) ASSERT_NE(Make(table), nullptr);
  EXPECT_EQ(Make(table), nullptr);
  Destroy(table, things_.begin()->first);
  EXPECT_NE(Make(table), nullptr);
}

TEST_F(NumberTableTest, ANumberIsReusedAfterAllOthers) {
  OfferNumbersOf(7, lessor_);
  NumberTable<Thing> table(64, &lessor_, NumberSpace::kQpn, kKey);
  std::vector<bool> seen(kIndexCount);
  uint32_t first = 0;
  uint32_t count = 0;
  for (;; ++count) {
    const uint32_t number = *table.Draw(kNoneBusy);
    if (count == 0) first = number;
    if (seen[IndexOf(number)]) {
      EXPECT_EQ(number, first);
      break;
    }
    seen[IndexOf(number)] = true;
    EXPECT_FALSE(IsReservedIndex(IndexOf(number)));
  }
  EXPECT_EQ(count, kIndexCount - 3);  // all but the reserved ones
}

TEST_F(NumberTableTest, NumbersAreDrawnFromTheLeaseUntilItIsUsedUp) {
  lessor_.Offer(NumberSpace::kQpn, {NumberOf(2, 64), 32});
  lessor_.Offer(NumberSpace::kQpn, {NumberOf(2, 4096), 16});
  NumberTable<Thing> table(1000, &lessor_, NumberSpace::kQpn, kKey);
  for (int n = 0; n < 48; ++n) {
    const Thing* const thing = Make(table);
    ASSERT_NE(thing, nullptr);
    const NumberRange range = n < 32 ? NumberRange{NumberOf(2, 64), 32}
                                     : NumberRange{NumberOf(2, 4096), 16};
    ASSERT_TRUE(range.Has(thing->number)) << n;
  }
  EXPECT_EQ(Make(table), nullptr);
  // Numbers that are returned, or leased later, are used.
  Destroy(table, things_.begin()->first);
  EXPECT_NE(Make(table), nullptr);
  EXPECT_EQ(Make(table), nullptr);
  lessor_.Offer(NumberSpace::kQpn, {NumberOf(2, 256), 4});
  EXPECT_NE(Make(table), nullptr);
  ExpectAllFound(table);
}

// The most queue pairs that the design allows, down to the last number.
TEST_F(NumberTableTest, HasRoomForTheMostQueuePairs) {
  OfferNumbersOf(7, lessor_);
  NumberTable<Thing> table(kMaxQueuePairs, &lessor_, NumberSpace::kQpn, kKey);
  std::vector<Thing> all(kMaxQueuePairs);
  for (Thing& thing : all) {
    const auto number = table.Draw(kNoneBusy);
    ASSERT_TRUE(number.has_value());
    thing.number = *number;
    table.Add(*number, &thing);
  }
  EXPECT_FALSE(table.Draw(kNoneBusy).has_value());
  for (Thing& thing : all) ASSERT_EQ(table.Find(thing.number), &thing);
  for (const Thing& thing : all) table.Remove(thing.number);
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(NumberTableTest, AcceptsANumberThatWasDrawnElsewhere) {
  OfferNumbersOf(0, lessor_);
  NumberTable<Thing> table(4096, &lessor_, NumberSpace::kQpn, kKey);
  for (int n = 0; n < 500; ++n) Make(table);
  const uint32_t known = things_.begin()->first;
  EXPECT_FALSE(table.MakeRoomFor(known));
  // A number that shares its place until the table grows.
  const uint32_t alike = known ^ 4096;
  ASSERT_TRUE(table.MakeRoomFor(alike));
  auto& thing = things_[alike];
  thing = std::make_unique<Thing>(Thing{alike});
  table.Add(alike, thing.get());
  // A number that shares its place in the largest table too.
  EXPECT_FALSE(table.MakeRoomFor(alike ^ 1u << 20));
  ExpectAllFound(table);
  // It is not drawn either.
  while (Make(table) != nullptr) {
  }
  ExpectAllFound(table);
  EXPECT_FALSE(table.MakeRoomFor(alike ^ 1));
}

}  // namespace
}  // namespace urnic
