#include "ras/presence/presence.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace urnic {
namespace {

constexpr Duration kLong = Duration::Seconds(3600);

void NobodyIsLate(pid_t, const char*) { ADD_FAILURE() << "called late()"; }

TEST(PresenceTest, AVerbInsideAVerbIsRefusedAndNoted) {
  TakeNested([](pid_t, const char*, uint32_t) {});
  const int a = 0;
  const int b = 0;
  {
    const NamedPresence outer(&a, "outer");
    EXPECT_TRUE(outer);
    EXPECT_FALSE(NamedPresence(&b, "inner"));
    EXPECT_FALSE(NamedPresence(&a, "again"));
  }
  EXPECT_TRUE(Presence(&b)) << "the refused ones have left nothing behind";
  std::vector<std::tuple<pid_t, std::string, uint32_t>> noted;
  TakeNested([&](pid_t thread, const char* verb, uint32_t times) {
    noted.emplace_back(thread, verb, times);
  });
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0], std::tuple(getpid(), std::string("again"), 2u));
  TakeNested([](pid_t, const char*, uint32_t) {
    ADD_FAILURE() << "it is reported once";
  });
}

TEST(PresenceTest, ASignalHandlerInsideAVerbIsRefused) {
  static const int object = 0;
  static int entered = -1;
  struct sigaction before;
  struct sigaction action = {};
  action.sa_handler = [](int) { entered = bool{Presence(&object)} ? 1 : 0; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  {
    const Presence inside(&object);
    raise(SIGUSR1);
  }
  EXPECT_EQ(entered, 0);
  raise(SIGUSR1);
  EXPECT_EQ(entered, 1) << "outside of verbs a handler may call one";
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(PresenceTest, WaitsForTheOthersInTheObjectAlone) {
  const int mine = 0;
  const int other = 0;
  std::atomic<int> step = 0;
  std::thread in_mine([&] {
    const NamedPresence inside(&mine, "slow_verb");
    step = 1;
    while (step == 1) std::this_thread::yield();
  });
  std::thread in_other([&] {
    const Presence inside(&other);
    while (step != 3) std::this_thread::yield();
  });
  while (step == 0) std::this_thread::yield();
  const NamedPresence here(&mine, "destroy");
  std::string late;
  AwaitOthersOutside([&](const void* object) { return object == &mine; },
                     Duration::Microseconds(1),
                     [&](pid_t thread, const char* verb) {
                       EXPECT_NE(thread, getpid());
                       late += verb;
                       step = 2;
                     });
  EXPECT_EQ(late, "slow_verb") << "told once, and waited on";
  step = 3;
  in_mine.join();
  in_other.join();
}

TEST(PresenceTest, WhoWaitsForTheProgramIsOutside) {
  const int object = 0;
  std::atomic<int> step = 0;
  std::thread waiting([&] {
    const Presence inside(&object);
    {
      const Absence outside;
      EXPECT_TRUE(Presence(&object)) << "the program's code may call verbs";
      step = 1;
      while (step == 1) std::this_thread::yield();
    }
    EXPECT_FALSE(Presence(&object)) << "inside again";
  });
  while (step == 0) std::this_thread::yield();
  AwaitOthersOutside([&](const void* at) { return at == &object; }, kLong,
                     NobodyIsLate);
  step = 2;
  waiting.join();
}

TEST(PresenceTest, NobodyEntersInAForkedChild) {
  const int object = 0;
  EXPECT_TRUE(Presence(&object));
  const pid_t child = fork();
  if (child == 0) {
    CloseAllPlaces();
    _exit(Presence(&object) || NamedPresence(&object, "verb") ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(PresenceTest, ThePlaceOfAnEndedThreadIsTakenOver) {
  const auto places = [] {
    size_t count = 0;
    for (ThreadPlace* p = internal::FirstPlace(); p != nullptr; p = p->next) {
      ++count;
    }
    return count;
  };
  const int object = 0;
  std::thread([&] { EXPECT_TRUE(Presence(&object)); }).join();
  const size_t before = places();
  for (int i = 0; i < 100; ++i) {
    std::thread([&] { EXPECT_TRUE(Presence(&object)); }).join();
  }
  EXPECT_EQ(places(), before);
}

// Under TSan: the fences order the use of an object before its end.
TEST(PresenceTest, UsersAndAnEndAtTheSameTime) {
  EnableAsymmetricFence();
  for (int round = 0; round < 200; ++round) {
    auto object = std::make_unique<int>(round);
    std::atomic<bool> intact = true;
    std::vector<std::thread> users;
    for (int i = 0; i < 3; ++i) {
      users.emplace_back([&] {
        for (bool go = true; go;) {
          const Presence inside(&intact);
          go = intact.load(std::memory_order_relaxed);
          if (go) {
            EXPECT_EQ(*object, round);
          }
        }
      });
    }
    intact.store(false, std::memory_order_relaxed);
    AwaitOthersOutside([&](const void* at) { return at == &intact; }, kLong,
                       NobodyIsLate);
    *object = -1;
    object.reset();
    for (std::thread& user : users) user.join();
  }
}

}  // namespace
}  // namespace urnic
