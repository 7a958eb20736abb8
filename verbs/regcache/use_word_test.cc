// The protocol of a use, in every order. Not under TSan, which cannot follow
// the explorer's fibres.

#include "verbs/regcache/use_word.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tests/support/explorer.h"

namespace urnic::regcache {
namespace {

using Word = UseWord<ModelAtomic<uint64_t>>;

// An entry of the index, and the registrations that it has been: 1, then 2.
struct World {
  Word word;
  ModelAtomic<uint64_t> memory{1};  // which mapping it covers
  // Readers of the kernel's events, as Space::calm().
  ModelAtomic<uint32_t> reading{0};

  // What a test would see, not the code.
  bool live[3] = {false, true, false};
  uint64_t users[3] = {0, 0, 0};
  int ends[3] = {0, 0, 0};
  bool ready = false;        // the first registration is usable
  bool registering = false;  // the second one
  bool change_returned = false;
  bool wrong = false;

  void End(uint64_t registration) {
    wrong |= !live[registration] || users[registration] != 0;
    live[registration] = false;
    ++ends[registration];
  }
  // Of a registration that has ended, another may be made in its place.
  void Reuse() {
    word.Start();
    memory.store(2, std::memory_order_relaxed);
    live[2] = true;
    ++users[2];
    word.Publish();
    --users[2];
    if (word.Drop() == Word::Put::kLast) End(2);
  }
  // Cache::Get() and Put() of a buffer in mapping `wanted`.
  void GetAndPut(uint64_t wanted, bool check_reading) {
    const bool after = change_returned;
    if (check_reading && reading.load() != 0) return;  // goes to the lock
    if (memory.load(std::memory_order_relaxed) != wanted) return;
    if (word.TryUse() != Word::Get::kDone) return;
    const uint64_t has = memory.load(std::memory_order_relaxed);
    if (has == wanted) {
      wrong |= after && has == 1;
      wrong |= !live[has];
      ++users[has];
      // The transfer goes on while others run.
      Explorer::current->Yield();
      wrong |= !live[has];
      --users[has];
    }
    if (word.Drop() == Word::Put::kLast) End(has);
  }
};

struct Verdict {
  bool good;
  uint64_t runs;
};

// `bodies` are the threads; the entry begins as a usable registration, 1.
Verdict Explore(int preemptions,
                std::vector<std::function<void(World&)>> bodies,
                const std::function<bool(World&)>& check) {
  std::unique_ptr<World> world;
  Explorer explorer;
  Verdict verdict{};
  verdict.runs = explorer.Explore(
      preemptions,
      [&] {
        world = std::make_unique<World>();
        std::vector<std::function<void()>> threads;
        // The first makes the registration usable before the others run.
        threads.push_back([&world, &bodies] {
          world->word.Start();
          world->word.Publish();
          world->word.Drop();
          world->ready = true;
          bodies[0](*world);
        });
        for (size_t i = 1; i < bodies.size(); ++i) {
          threads.push_back([&world, &bodies, i] {
            if (world->ready) bodies[i](*world);
          });
        }
        return threads;
      },
      [&] { return !world->wrong && check(*world); }, verdict.good);
  return verdict;
}

void User(World& w) { w.GetAndPut(1, false); }

TEST(UseWord, ARegistrationEndsOnceAndNotWhileItIsUsed) {
  const Verdict v = Explore(4,
                            {[](World& w) {
                               if (w.word.Retire()) w.End(1);
                             },
                             User, User},
                            [](World& w) { return w.ends[1] == 1; });
  EXPECT_TRUE(v.good) << v.runs;
  EXPECT_GT(v.runs, 1000u);
}

TEST(UseWord, TwoThatRetireEndItOnce) {
  const auto retire = [](World& w) {
    if (w.word.Retire()) w.End(1);
  };
  const Verdict v = Explore(4, {retire, retire, User},
                            [](World& w) { return w.ends[1] == 1; });
  EXPECT_TRUE(v.good) << v.runs;
}

TEST(UseWord, WhatMakesRoomIsNotInUse) {
  const Verdict v = Explore(5,
                            {[](World& w) {
                               if (w.word.RetireIfUnused()) w.End(1);
                             },
                             User, User},
                            [](World& w) { return w.ends[1] <= 1; });
  EXPECT_TRUE(v.good) << v.runs;
}

TEST(UseWord, AnEntryThatIsUsedAgainGivesNobodyTheOtherMemory) {
  const Verdict v = Explore(4,
                            {[](World& w) {
                               if (!w.word.Retire()) return;
                               w.End(1);
                               w.Reuse();
                             },
                             User, [](World& w) { w.GetAndPut(2, false); }},
                            [](World&) { return true; });
  EXPECT_TRUE(v.good) << v.runs;
}

// An intercepted call: it retires, and then returns.
TEST(UseWord, NoGetAfterAChangeFindsWhatWasThereBefore) {
  const Verdict v = Explore(4,
                            {[](World& w) {
                               if (w.word.Retire()) w.End(1);
                               w.change_returned = true;
                               w.GetAndPut(1, false);
                             },
                             User, User},
                            [](World&) { return true; });
  EXPECT_TRUE(v.good) << v.runs;
}

// The kernel lets a change return when its event is read, before anything is
// retired.
Verdict ReportedChange(bool check_reading) {
  const auto user = [check_reading](World& w) {
    w.GetAndPut(1, check_reading);
  };
  return Explore(4,
                 {[](World& w) {
                    w.reading.store(1);
                    w.change_returned = true;
                    Explorer::current->Yield();
                    if (w.word.Retire()) w.End(1);
                    w.reading.store(0);
                  },
                  user, user},
                 [](World&) { return true; });
}

TEST(UseWord, NoGetAfterAReportedChangeFindsWhatWasThereBefore) {
  const Verdict v = ReportedChange(true);
  EXPECT_TRUE(v.good) << v.runs;
  EXPECT_FALSE(ReportedChange(false).good) << "the model sees what is wrong";
}

TEST(UseWord, AChangeWhileItIsRegisteredLeavesItToOneUse) {
  const Verdict v =
      Explore(4,
              {[](World& w) {
                 if (w.word.Retire()) w.End(1);
                 w.word.Start();
                 w.registering = true;
                 w.memory.store(2, std::memory_order_relaxed);
                 w.live[2] = true;
                 ++w.users[2];
                 w.word.Publish();
                 Explorer::current->Yield();
                 --w.users[2];
                 if (w.word.Drop() == Word::Put::kLast) w.End(2);
               },
               [](World& w) {
                 if (w.registering && w.word.Retire()) w.End(2);
               }},
              [](World& w) { return w.ends[1] == 1 && w.ends[2] <= 1; });
  EXPECT_TRUE(v.good) << v.runs;
}

TEST(UseWord, CountsUsesAndRefusesMoreThanItCanCount) {
  UseWord<std::atomic<uint64_t>> word;
  using Real = UseWord<std::atomic<uint64_t>>;
  EXPECT_EQ(word.TryUse(), Real::Get::kUnusable);
  word.Start();
  EXPECT_EQ(word.TryUse(), Real::Get::kUnusable);
  word.Publish();
  for (uint64_t i = 1; i < Real::kUses; ++i) word.TryUse();
  EXPECT_EQ(word.TryUse(), Real::Get::kFull);
  EXPECT_EQ(word.uses(), Real::kUses);
  EXPECT_EQ(word.gets(), Real::kUses);
  EXPECT_FALSE(word.dead() || word.pending());
  EXPECT_EQ(word.Drop(), Real::Put::kDone);
  EXPECT_EQ(word.TryUse(), Real::Get::kDone);
}

}  // namespace
}  // namespace urnic::regcache
