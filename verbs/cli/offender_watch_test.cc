#include "verbs/cli/offender_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace urnic {
namespace {

using namespace std::chrono_literals;
using What = GuardAction::What;
using Look = OffenderWatch::Look;
using Time = OffenderWatch::Time;

constexpr auto kGrace = 5s;

// Of process `pid`, which is also in the name of its run directory.
Offender Of(uint64_t pid, const std::string& program, uint64_t number = 1) {
  return {.key = {.port = {.directory = "/run/urnic-1-" + std::to_string(pid),
                           .device = "urnic0"},
                  .number = number,
                  .since = "2026-11-27T20:52:01.004120Z"},
          .blocks = "recovery",
          .what = "1 queue pair",
          .pid = pid,
          .program = program,
          .is_here = true};
}

std::set<PortKey> Ports(const Offender& offender) {
  return {offender.key.port};
}

// Each action as "found 17".
std::vector<std::string> Texts(const std::vector<GuardAction>& actions) {
  constexpr const char* kNames[] = {"found ", "gone ", "sigterm ", "sigkill "};
  std::vector<std::string> texts;
  for (const GuardAction& action : actions) {
    texts.push_back(kNames[static_cast<size_t>(action.what)] +
                    std::to_string(action.offender.pid));
  }
  return texts;
}

using Told = std::vector<std::string>;

class OffenderWatchTest : public testing::Test {
 protected:
  void Use(GuardPolicy policy, std::vector<std::string> programs = {}) {
    watch_ = std::make_unique<OffenderWatch>(
        GuardOptions{policy, std::move(programs), kGrace});
  }
  // What a look makes of these offenders; all signals have this result.
  Told After(std::chrono::milliseconds time, std::vector<Offender> offenders,
             std::set<PortKey> silent = {},
             SignalResult result = SignalResult::kSent) {
    now_ += time;
    const auto actions = watch_->OnLook(
        {.offenders = std::move(offenders), .silent = std::move(silent)}, now_);
    for (const GuardAction& action : actions) {
      if (action.what == What::kSigterm || action.what == What::kSigkill)
        watch_->OnSignal(action, result, now_);
    }
    return Texts(actions);
  }

  std::unique_ptr<OffenderWatch> watch_;
  Time now_;
};

TEST_F(OffenderWatchTest, AnOffenderIsToldOnceAndOnceMoreWhenItIsGone) {
  Use(GuardPolicy::kLog);
  EXPECT_EQ(After(0s, {}), Told());
  EXPECT_EQ(After(1s, {Of(17, "fio")}), Told({"found 17"}));
  EXPECT_EQ(After(1s, {Of(17, "fio")}), Told());
  EXPECT_EQ(After(1s, {Of(17, "fio", 2)}), Told({"gone 17", "found 17"}));
  EXPECT_EQ(After(1s, {}), Told({"gone 17"}));
  EXPECT_EQ(After(1s, {}), Told());
  EXPECT_TRUE(watch_->empty());
  EXPECT_EQ(watch_->totals().found, 2u);
  EXPECT_EQ(watch_->totals().gone, 2u);
  EXPECT_EQ(watch_->totals().sigterms, 0u);
}

TEST_F(OffenderWatchTest, WithThePolicyLogNobodyIsSignalled) {
  Use(GuardPolicy::kLog, {"*"});
  EXPECT_EQ(After(0s, {Of(17, "fio")}), Told({"found 17"}));
  EXPECT_EQ(After(1h, {Of(17, "fio")}), Told());
  EXPECT_FALSE(watch_->IsCandidate(Of(17, "fio")));
}

// exec() keeps the pid and the run directory's name, and counts from 1 again.
TEST_F(OffenderWatchTest, TheSameNumberLaterIsAnotherOffender) {
  Use(GuardPolicy::kLog);
  After(0s, {Of(17, "fio")});
  Offender later = Of(17, "fio");
  later.key.since = "2026-11-27T20:53:00.000000Z";
  EXPECT_EQ(After(1s, {later}), Told({"gone 17", "found 17"}));
}

TEST_F(OffenderWatchTest, OnlyCandidatesAreSignalled) {
  Use(GuardPolicy::kTerm, {"fio", "ib_write_bw"});
  EXPECT_EQ(
      After(0s, {Of(17, "fio"), Of(18, "fio2"), Of(19, "ib_write_bw")}),
      Told({"found 17", "found 18", "found 19", "sigterm 17", "sigterm 19"}));
  EXPECT_EQ(watch_->totals().sigterms, 2u);
}

TEST_F(OffenderWatchTest, AStarIsEveryProgram) {
  Use(GuardPolicy::kTerm, {"*"});
  EXPECT_EQ(After(0s, {Of(17, "fio"), Of(18, "x")}),
            Told({"found 17", "found 18", "sigterm 17", "sigterm 18"}));
}

TEST_F(OffenderWatchTest, AProcessOfAnotherPidNamespaceIsOnlyTold) {
  Use(GuardPolicy::kKill, {"*"});
  Offender elsewhere = Of(17, "fio");
  elsewhere.is_here = false;
  EXPECT_EQ(After(0s, {elsewhere}), Told({"found 17"}));
  EXPECT_EQ(After(kGrace, {elsewhere}), Told());
  EXPECT_TRUE(watch_->IsCandidate(elsewhere));
}

TEST_F(OffenderWatchTest, WithThePolicyTermThereIsOneSigterm) {
  Use(GuardPolicy::kTerm, {"*"});
  After(0s, {Of(17, "fio")});
  EXPECT_EQ(After(kGrace, {Of(17, "fio")}), Told());
  EXPECT_EQ(After(kGrace, {Of(17, "fio")}), Told());
}

TEST_F(OffenderWatchTest, WithThePolicyKillSigkillFollowsAfterTheGrace) {
  Use(GuardPolicy::kKill, {"*"});
  EXPECT_EQ(After(0s, {Of(17, "fio")}), Told({"found 17", "sigterm 17"}));
  EXPECT_EQ(After(kGrace - 1ms, {Of(17, "fio")}), Told());
  EXPECT_EQ(After(1ms, {Of(17, "fio")}), Told({"sigkill 17"}));
  EXPECT_EQ(After(kGrace, {Of(17, "fio")}), Told());
  EXPECT_EQ(After(1s, {}), Told({"gone 17"}));
  EXPECT_EQ(watch_->totals().sigterms, 1u);
  EXPECT_EQ(watch_->totals().sigkills, 1u);
}

TEST_F(OffenderWatchTest, AProcessThatIsGoneInTimeIsNotKilled) {
  Use(GuardPolicy::kKill, {"*"});
  After(0s, {Of(17, "fio")});
  EXPECT_EQ(After(1s, {}), Told({"gone 17"}));
  // It destroyed its queue pairs, lives, and does it again.
  EXPECT_EQ(After(kGrace, {Of(17, "fio", 2)}),
            Told({"found 17", "sigterm 17"}));
}

TEST_F(OffenderWatchTest, AProcessWithManyOffencesIsSignalledOnce) {
  Use(GuardPolicy::kKill, {"*"});
  Offender port = Of(17, "fio", 3);
  port.key.port.device = "urnic1";
  const std::vector<Offender> all = {Of(17, "fio", 1), Of(17, "fio", 2), port};
  EXPECT_EQ(After(0s, all),
            Told({"found 17", "found 17", "found 17", "sigterm 17"}));
  EXPECT_EQ(After(1s, {port}), Told({"gone 17", "gone 17"}));
  EXPECT_EQ(After(kGrace, {port}), Told({"sigkill 17"}));
}

TEST_F(OffenderWatchTest, ASilentProgramKeepsItsOffencesAndIsNotKilled) {
  Use(GuardPolicy::kKill, {"*"});
  After(0s, {Of(17, "fio"), Of(18, "fio")});
  EXPECT_EQ(After(kGrace, {Of(18, "fio")}, Ports(Of(17, ""))),
            Told({"sigkill 18"}));
  EXPECT_FALSE(watch_->empty());
  EXPECT_EQ(After(1s, {Of(17, "fio")}, Ports(Of(18, ""))),
            Told({"sigkill 17"}));
}

TEST_F(OffenderWatchTest, ASignalThatFoundNoAnswerIsTriedAgain) {
  Use(GuardPolicy::kKill, {"*"});
  for (const auto result : {SignalResult::kSilent, SignalResult::kNoOffender}) {
    const auto texts = After(1s, {Of(17, "fio")}, {}, result);
    EXPECT_EQ(texts.back(), "sigterm 17");
    EXPECT_FALSE(watch_->IsAwaited(now_));
  }
  EXPECT_EQ(After(1s, {Of(17, "fio")}), Told({"sigterm 17"}));
  EXPECT_EQ(After(kGrace, {Of(17, "fio")}, {}, SignalResult::kSilent),
            Told({"sigkill 17"}));
  EXPECT_EQ(After(1s, {Of(17, "fio")}), Told({"sigkill 17"}));
  EXPECT_EQ(watch_->totals().sigterms, 1u);
  EXPECT_EQ(watch_->totals().sigkills, 1u);
}

TEST_F(OffenderWatchTest, ASignalThatIsRefusedIsNotTriedAgain) {
  Use(GuardPolicy::kKill, {"*"});
  EXPECT_EQ(After(0s, {Of(17, "fio")}, {}, SignalResult::kRefused),
            Told({"found 17", "sigterm 17"}));
  EXPECT_FALSE(watch_->IsAwaited(now_));
  EXPECT_EQ(After(kGrace, {Of(17, "fio")}), Told());
  EXPECT_EQ(After(kGrace, {Of(17, "fio", 2)}), Told({"gone 17", "found 17"}));
  EXPECT_EQ(watch_->totals().sigterms, 0u);
}

TEST_F(OffenderWatchTest, TheNextLookIsNotLaterThanTheEndOfAGrace) {
  Use(GuardPolicy::kKill, {"*"});
  EXPECT_EQ(watch_->NextLook(now_, 1min), now_ + 1min);
  After(0s, {Of(17, "fio")});
  EXPECT_EQ(watch_->NextLook(now_, 1min), now_ + kGrace);
  EXPECT_EQ(watch_->NextLook(now_, 1s), now_ + 1s);
  // It does not answer: what is overdue does not call for looks without end.
  After(kGrace, {}, Ports(Of(17, "")));
  EXPECT_EQ(watch_->NextLook(now_, 1min), now_ + 1min);
}

TEST_F(OffenderWatchTest, AProcessIsAwaitedUntilItIsGoneOrOverdue) {
  Use(GuardPolicy::kKill, {"*"});
  EXPECT_FALSE(watch_->IsAwaited(now_));
  After(0s, {Of(17, "fio")});
  EXPECT_TRUE(watch_->IsAwaited(now_));
  After(kGrace, {Of(17, "fio")});  // SIGKILL
  EXPECT_TRUE(watch_->IsAwaited(now_));
  EXPECT_FALSE(watch_->IsAwaited(now_ + 5s));
  After(1ms, {});
  EXPECT_FALSE(watch_->IsAwaited(now_));
  EXPECT_TRUE(watch_->empty());
}

}  // namespace
}  // namespace urnic
