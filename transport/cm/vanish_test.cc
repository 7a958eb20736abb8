// A peer vanishes, at each possible step. Nothing of it is left after the
// program destroys its handle, whether it does so immediately or first waits
// for the manager's report.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/cm_pair.h"

namespace urnic::cm {
namespace {

// What the manager reports about a vanished peer. kNothing: it has no reason to
// send (an established connection, or an answer that the program owes).
enum class Verdict : uint8_t {
  kNothing,
  kReqError,
  kRepError,
  kDreqError,
  kTimewaitExit,
  kSidrReqError,
};

class VanishTest;

struct Step {
  std::string name;
  int survivor;
  std::function<void(VanishTest&)> reach;
  Verdict verdict;
};

class VanishTest : public ::urnic::testing::CmPair {
 public:
  static std::vector<Step> Steps();

  // --- The steps -----------------------------------------------------------
  void ReqSent() {
    Listen();
    Connect();
  }
  void ReqAnsweredByMra() {
    ReachReqReceived();
    ASSERT_EQ(manager(1).PrepareMra(handle(1), kTimeoutCode), 0);
    ASSERT_EQ(Give(0, Mra(1, wire::kCmMessageReq, kTimeoutCode)),
              RxVerdict::kAccept);
    Take(0, EventKind::kMraReceived);
  }
  void ReqReceived() { ReachReqReceived(); }
  void ReqReceivedAndPatient() {
    ReachReqReceived();
    ASSERT_EQ(manager(1).PrepareMra(handle(1), kTimeoutCode), 0);
  }
  void RepSent() { ReachRepSent(); }
  void RepAnsweredByMra() {
    ReachRepReceived();
    ASSERT_EQ(manager(0).PrepareMra(handle(0), kTimeoutCode), 0);
    ASSERT_EQ(Give(1, Mra(0, wire::kCmMessageRep, kTimeoutCode)),
              RxVerdict::kAccept);
    Take(1, EventKind::kMraReceived);
  }
  void RepReceived() { ReachRepReceived(); }
  void RepReceivedAndPatient() {
    ReachRepReceived();
    ASSERT_EQ(manager(0).PrepareMra(handle(0), kTimeoutCode), 0);
  }
  void RtuLost() {
    ReachRepReceived();
    ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
    sink(0).mads.clear();
  }
  void Established() { ReachEstablished(); }
  void EstablishedByTraffic() {
    RtuLost();
    ASSERT_EQ(manager(1).EstablishByTraffic(handle(1), sink(1)), 0);
    Take(1, EventKind::kUserEstablished);
  }
  void EstablishedAndLapRefused() {
    ReachEstablished();
    wire::CmLap lap;
    lap.mad.base_version = wire::kMadBaseVersion;
    lap.mad.management_class = wire::kMadClassCm;
    lap.mad.class_version = wire::kCmClassVersion;
    lap.mad.method = wire::kMadMethodSend;
    lap.mad.attribute_id = wire::Be<uint16_t>(wire::kCmLapAttribute);
    lap.local_comm_id = wire::Be<uint32_t>(manager(0).local_comm_id(handle(0)));
    lap.remote_comm_id =
        wire::Be<uint32_t>(manager(1).local_comm_id(handle(1)));
    ASSERT_EQ(Give(1, lap), RxVerdict::kCmRefused);
  }
  void DreqSent() {
    ReachEstablished();
    ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  }
  void DreqReceived() {
    DreqSent();
    Pass(0);
    Take(1, EventKind::kDreqReceived);
  }
  void Timewait() {
    DreqReceived();
    ASSERT_EQ(manager(1).SendDrep(handle(1), {}, now_, sink(1)), 0);
    Pass(1);
    Take(0, EventKind::kDrepReceived);
  }
  void SidrAsked() {
    Listen();
    SidrRequestParams params;
    params.service_id = kService;
    params.mad_path = PathFrom(0);
    params.response_timeout_code = kTimeoutCode;
    params.packet_life_time_code = kLifeTimeCode;
    params.max_cm_retries = kRetries;
    ASSERT_EQ(
        manager(0).SidrRequest(params, kUser, now_, sink(0), node(0).handle),
        0);
  }
  void SidrReceived() {
    SidrAsked();
    Pass(0);
    Take(1, EventKind::kSidrReqReceived);
  }

 protected:
  void SetUp() override {
    // One place besides the listener's: anything left behind takes it.
    for (int i = 0; i < 2; ++i) Restart(i, 2, 1);
  }

  // The wire is cut: time passes for the survivor, whose messages are lost.
  void Run(int i) {
    for (int n = 0; n < 100; ++n) {
      sink(i).mads.clear();
      const Time next = manager(i).NextDeadline();
      if (next.IsInfinite()) return;
      now_ = next;
      manager(i).OnTimer(now_, sink(i));
      manager(i).CheckInvariants();
    }
    FAIL() << "it waits forever";
  }
  void ExpectVerdict(int i, Verdict verdict) {
    const std::vector<std::vector<EventKind>> kEvents = {
        {},
        {EventKind::kReqError},
        {EventKind::kRepError, EventKind::kTimewaitExit},
        {EventKind::kDreqError, EventKind::kTimewaitExit},
        {EventKind::kTimewaitExit},
        {EventKind::kSidrReqError},
    };
    for (const EventKind kind : kEvents[static_cast<size_t>(verdict)]) {
      Take(i, kind);
    }
    EXPECT_TRUE(sink(i).events.empty());
  }
  void ExpectNothingLeft(int i, uint32_t listeners) {
    EXPECT_EQ(manager(i).in_use(), listeners);
    EXPECT_TRUE(manager(i).NextDeadline().IsInfinite());
    EXPECT_FALSE(manager(i).IsQpnBusy(Request().qpn));
    EXPECT_FALSE(manager(i).IsQpnBusy(Reply().qpn));
    EXPECT_TRUE(sink(i).events.empty());
  }

  // `patient`: the program waits until the manager has nothing more to tell.
  void VanishAt(const Step& step, bool patient) {
    const int i = step.survivor;
    // The same queue pairs and, on the survivor, the same places each time.
    for (int round = 0; round < 3; ++round) {
      SCOPED_TRACE(round);
      Restart(1 - i, 2, 1);
      if (i == 1 && node(1).listener.valid()) {
        ASSERT_EQ(manager(1).Unlisten(node(1).listener), 0);
      }
      step.reach(*this);
      if (HasFatalFailure()) return;
      const Time start = now_;
      const Handle handle = node(i).handle;
      if (patient) {
        Run(i);
        ExpectVerdict(i, step.verdict);
      }
      ASSERT_EQ(manager(i).Destroy(handle, now_, sink(i)), 0);
      Run(i);
      ExpectNothingLeft(i, i == 1 ? 1 : 0);
      // Well below the 69 s that a peer may ask for.
      EXPECT_LT((now_ - start).ns(), Duration::Seconds(1).ns());
    }
  }
};

std::vector<Step> VanishTest::Steps() {
  constexpr int kActive = 0;
  constexpr int kPassive = 1;
  const auto at = [](void (VanishTest::*reach)()) {
    return [reach](VanishTest& test) { (test.*reach)(); };
  };
  using V = Verdict;
  using T = VanishTest;
  return {
      {"ReqSent", kActive, at(&T::ReqSent), V::kReqError},
      {"MraOfReq", kActive, at(&T::ReqAnsweredByMra), V::kReqError},
      {"ReqReceived", kPassive, at(&T::ReqReceived), V::kNothing},
      {"MraSent", kPassive, at(&T::ReqReceivedAndPatient), V::kNothing},
      {"RepSent", kPassive, at(&T::RepSent), V::kRepError},
      {"RtuLost", kPassive, at(&T::RtuLost), V::kRepError},
      {"MraOfRep", kPassive, at(&T::RepAnsweredByMra), V::kRepError},
      {"RepReceived", kActive, at(&T::RepReceived), V::kNothing},
      {"MraOfRepSent", kActive, at(&T::RepReceivedAndPatient), V::kNothing},
      {"RtuSent", kActive, at(&T::RtuLost), V::kNothing},
      {"ActiveEstablished", kActive, at(&T::Established), V::kNothing},
      {"PassiveEstablished", kPassive, at(&T::Established), V::kNothing},
      {"ByTraffic", kPassive, at(&T::EstablishedByTraffic), V::kNothing},
      {"LapRefused", kPassive, at(&T::EstablishedAndLapRefused), V::kNothing},
      {"DreqSent", kActive, at(&T::DreqSent), V::kDreqError},
      {"DreqReceived", kPassive, at(&T::DreqReceived), V::kNothing},
      {"ActiveTimewait", kActive, at(&T::Timewait), V::kTimewaitExit},
      {"PassiveTimewait", kPassive, at(&T::Timewait), V::kTimewaitExit},
      {"SidrAsked", kActive, at(&T::SidrAsked), V::kSidrReqError},
      {"SidrReceived", kPassive, at(&T::SidrReceived), V::kNothing},
  };
}

TEST_F(VanishTest, NothingIsLeftWhenTheProgramDestroysImmediately) {
  for (const Step& step : Steps()) {
    SCOPED_TRACE(step.name);
    SetUp();
    VanishAt(step, false);
    if (HasFailure()) return;
  }
}

TEST_F(VanishTest, NothingIsLeftWhenTheProgramWaitsForTheReport) {
  for (const Step& step : Steps()) {
    SCOPED_TRACE(step.name);
    SetUp();
    VanishAt(step, true);
    if (HasFailure()) return;
  }
}

// The program answers a peer that has vanished.
TEST_F(VanishTest, AnswersToAVanishedPeerEndByThemselves) {
  ReqReceived();
  ASSERT_EQ(manager(1).Accept(handle(1), Reply(), now_, sink(1)), 0);
  Run(1);
  ExpectVerdict(1, Verdict::kRepError);
  ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
  ExpectNothingLeft(1, 1);

  SetUp();
  DreqReceived();
  ASSERT_EQ(manager(1).SendDrep(handle(1), {}, now_, sink(1)), 0);
  Run(1);
  ExpectVerdict(1, Verdict::kTimewaitExit);
  ASSERT_EQ(manager(1).Destroy(handle(1), now_, sink(1)), 0);
  ExpectNothingLeft(1, 1);

  SetUp();
  RepReceived();
  ASSERT_EQ(manager(0).SendRtu(handle(0), {}, sink(0)), 0);
  ASSERT_EQ(manager(0).Disconnect(handle(0), {}, now_, sink(0)), 0);
  Run(0);
  ExpectVerdict(0, Verdict::kDreqError);
  ASSERT_EQ(manager(0).Destroy(handle(0), now_, sink(0)), 0);
  ExpectNothingLeft(0, 0);
}

// The peer has crashed and restarted, with the same queue pairs and no memory.
TEST_F(VanishTest, APeerThatComesBackConnectsAgain) {
  for (const Step& step : Steps()) {
    if (step.name.starts_with("Sidr")) continue;
    SCOPED_TRACE(step.name);
    for (int i = 0; i < 2; ++i) Restart(i, 8, 8);
    step.reach(*this);
    const int i = step.survivor;
    const Handle old = handle(i);
    Restart(1 - i, 8, 8);
    sink(i).mads.clear();
    sink(i).events.clear();
    Run(i);
    ASSERT_EQ(manager(i).Destroy(old, now_, sink(i)), 0);
    Run(i);
    sink(i).events.clear();
    if (i == 1) {
      ASSERT_EQ(manager(1).Unlisten(node(1).listener), 0);
    }
    ReachEstablished();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace urnic::cm
