#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "ras/marks/marked_slab.h"

namespace urnic {
namespace {

struct Thing {
  static constexpr Marks kMarks = MarksOf("SRQ");
  int value = 7;
  ~Thing() { value = 0; }
};
using Slab = MarkedSlab<Thing>;

Thing* NewThing() {
  Thing* const thing = Slab::Of().New();
  EXPECT_EQ(HealthOf(thing), Health::kEnded) << "it is not whole yet";
  Slab::Begin(thing);
  return thing;
}

std::string Bytes(const void* at) {
  return std::string(static_cast<const char*>(at), 8);
}

TEST(MarksTest, TheyReadAsTextAroundTheObject) {
  Thing* thing = NewThing();
  EXPECT_EQ(Bytes(reinterpret_cast<char*>(thing) - 8), "uRNICSRQ");
  EXPECT_EQ(Bytes(&MarkedAround(thing)->end), "SRQuRNIC");
  EXPECT_EQ(MarkText(Thing::kMarks.start), "uRNICSRQ");
  EXPECT_EQ(MarkText(MarksOf("QP").start), "uRNIC-QP");
  EXPECT_EQ(MarkText(MarksOf("QP").end), "QP-uRNIC");
  EXPECT_EQ(MarkText(MarksOf("QP").ended), "ended-QP");
  EXPECT_EQ(MarkText(MarksOf("SRQ").fenced), "BAD--SRQ");
  EXPECT_EQ(MarkText(0x41 << 8), ".A......");
  EXPECT_TRUE(Slab::End(thing));
  Slab::Of().Delete(thing);
}

TEST(MarksTest, EveryFlippedBitOfAMarkIsFound) {
  Thing* thing = NewThing();
  for (uint64_t* mark :
       {&MarkedAround(thing)->start, &MarkedAround(thing)->end}) {
    for (int bit = 0; bit < 64; ++bit) {
      *mark ^= uint64_t{1} << bit;
      EXPECT_EQ(HealthOf(thing), Health::kDamaged) << bit;
      *mark ^= uint64_t{1} << bit;
    }
  }
  EXPECT_EQ(HealthOf(thing), Health::kIntact);
  EXPECT_TRUE(Slab::End(thing));
  Slab::Of().Delete(thing);
}

TEST(MarksTest, AnEndedObjectStaysEndedForLong) {
  Thing* first = NewThing();
  EXPECT_TRUE(HasStartMark(first));
  const size_t used = Slab::Of().used();
  EXPECT_TRUE(Slab::End(first));
  EXPECT_FALSE(Slab::End(first)) << "only one thread ends it";
  EXPECT_FALSE(HasStartMark(first));
  Slab::Begin(first);
  EXPECT_EQ(HealthOf(first), Health::kIntact) << "taken back";
  EXPECT_TRUE(Slab::End(first));
  Slab::Of().Delete(first);
  EXPECT_EQ(Slab::Of().used(), used - 1);
  // Others that are only made do not take its place either.
  for (int i = 0; i < 1000; ++i) EXPECT_NE(NewThing(), first);
  for (int i = 0; i < 64; ++i) {
    Thing* other = NewThing();
    EXPECT_NE(other, first);
    EXPECT_EQ(other->value, 7);
    EXPECT_EQ(HealthOf(first), Health::kEnded);
    EXPECT_TRUE(Slab::End(other));
    Slab::Of().Delete(other);
  }
}

TEST(MarksTest, ManyObjectsHavePlacesOfTheirOwn) {
  std::set<Thing*> things;
  for (int i = 0; i < 1000; ++i) things.insert(NewThing());
  EXPECT_EQ(things.size(), 1000u);
  for (Thing* thing : things) {
    EXPECT_EQ(HealthOf(thing), Health::kIntact);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(thing) % 64, 8u);
    EXPECT_TRUE(Slab::End(thing));
    Slab::Of().Delete(thing);
  }
}

TEST(MarksTest, ADamagedObjectIsFencedOffOnce) {
  Thing* thing = NewThing();
  std::memset(&MarkedAround(thing)->start, 'A', 8);
  EXPECT_EQ(HealthOf(thing), Health::kDamaged);
  EXPECT_FALSE(Slab::End(thing)) << "it is not destroyed as if it were whole";
  EXPECT_EQ(MarkText(FenceOff(thing)), "AAAAAAAA");
  EXPECT_EQ(FenceOff(thing), Thing::kMarks.fenced);
  EXPECT_EQ(HealthOf(thing), Health::kFenced);
}

}  // namespace
}  // namespace urnic
