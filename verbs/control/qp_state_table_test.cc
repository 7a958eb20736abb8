#include "verbs/control/qp_state_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "verbs/control/qp_attributes.h"

namespace urnic::control {
namespace {

using ::testing::HasSubstr;

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr,
                               QpState::kRts,   QpState::kSqd,  QpState::kSqe,
                               QpState::kErr};

// What Linux and the standard allow for RC, written down a second time: rows
// are "from", columns are "to".
//= IBTA 11.2.5.2
constexpr const char* kAllowed[] = {
    //     R I T S D E X (RESET INIT RTR RTS SQD SQE ERR)
    /* R */ "++.....",
    /* I */ "+++...+",
    /* T */ "+..+..+",
    /* S */ "+..++.+",
    /* D */ "+..++.+",
    /* E */ "+.....+",
    /* X */ "+.....+",
};

TEST(QpStateTableTest, AllowsTheTransitionsOfTheSpecificationAndNoOthers) {
  for (size_t from = 0; from < std::size(kStates); ++from) {
    for (size_t to = 0; to < std::size(kStates); ++to) {
      EXPECT_EQ(
          FindQpTransition(QpService::kRc, kStates[from], kStates[to]).valid,
          kAllowed[from][to] == '+')
          << QpStateName(kStates[from]) << " to " << QpStateName(kStates[to]);
    }
  }
}

// The attributes that each transition requires and takes besides the state.
// Where the standard leaves a choice, as in Linux's ib_modify_qp_is_ok().
// Transitions to RESET and ERR take nothing.
//= IBTA 11.2.5.2
struct Attributes {
  QpService service;
  QpState from;
  QpState to;
  uint32_t required;
  uint32_t optional;
};

std::vector<Attributes> ExpectedAttributes() {
  using enum QpState;
  using enum QpService;
  return {
      {kRc, kReset, kInit, kQpPkeyIndex | kQpPort | kQpAccessFlags, 0},
      {kUc, kReset, kInit, kQpPkeyIndex | kQpPort | kQpAccessFlags, 0},
      {kUd, kReset, kInit, kQpPkeyIndex | kQpPort | kQpQkey, 0},
      {kRc, kInit, kInit, 0, kQpPkeyIndex | kQpPort | kQpAccessFlags},
      {kUc, kInit, kInit, 0, kQpPkeyIndex | kQpPort | kQpAccessFlags},
      {kUd, kInit, kInit, 0, kQpPkeyIndex | kQpPort | kQpQkey},
      {kRc, kInit, kRtr,
       kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic |
           kQpMinRnrTimer,
       kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
      {kUc, kInit, kRtr, kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn,
       kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
      {kUd, kInit, kRtr, 0, kQpPkeyIndex | kQpQkey},
      {kRc, kRtr, kRts,
       kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxRdAtomic,
       kQpCurState | kQpAltPath | kQpAccessFlags | kQpMinRnrTimer |
           kQpPathMigState},
      {kUc, kRtr, kRts, kQpSqPsn,
       kQpCurState | kQpAltPath | kQpAccessFlags | kQpPathMigState},
      {kUd, kRtr, kRts, kQpSqPsn, kQpCurState | kQpQkey},
      {kRc, kRts, kRts, 0,
       kQpCurState | kQpAltPath | kQpAccessFlags | kQpMinRnrTimer |
           kQpPathMigState},
      {kUc, kRts, kRts, 0,
       kQpCurState | kQpAltPath | kQpAccessFlags | kQpPathMigState},
      {kUd, kRts, kRts, 0, kQpCurState | kQpQkey},
      {kRc, kRts, kSqd, 0, kQpEnSqdAsyncNotify},
      {kUc, kRts, kSqd, 0, kQpEnSqdAsyncNotify},
      {kUd, kRts, kSqd, 0, kQpEnSqdAsyncNotify},
      {kRc, kSqd, kRts, 0,
       kQpCurState | kQpAltPath | kQpAccessFlags | kQpMinRnrTimer |
           kQpPathMigState},
      {kUc, kSqd, kRts, 0,
       kQpCurState | kQpAltPath | kQpAccessFlags | kQpPathMigState},
      {kUd, kSqd, kRts, 0, kQpCurState | kQpQkey},
      {kRc, kSqd, kSqd, 0,
       kQpPort | kQpAv | kQpTimeout | kQpRetryCnt | kQpRnrRetry |
           kQpMaxRdAtomic | kQpMaxDestRdAtomic | kQpAltPath | kQpPkeyIndex |
           kQpAccessFlags | kQpMinRnrTimer | kQpPathMigState},
      {kUc, kSqd, kSqd, 0,
       kQpAv | kQpAltPath | kQpPkeyIndex | kQpAccessFlags | kQpPathMigState},
      {kUd, kSqd, kSqd, 0, kQpPkeyIndex | kQpQkey},
      {kUc, kSqe, kRts, 0, kQpCurState | kQpAccessFlags},
      {kUd, kSqe, kRts, 0, kQpCurState | kQpQkey},
  };
}

TEST(QpStateTableTest,
     EachAttributeIsRequiredOrOptionalAsTheSpecificationSays) {
  for (const Attributes& a : ExpectedAttributes()) {
    const auto ok = [&](uint32_t mask) {
      return CheckQpTransition(a.service, a.from, a.to, mask).ok();
    };
    const std::string road =
        std::string(QpStateName(a.from)) + " to " + QpStateName(a.to);
    EXPECT_TRUE(ok(kQpState | a.required)) << road;
    EXPECT_TRUE(ok(kQpState | a.required | a.optional)) << road;
    for (uint32_t bit = 1; bit != 0; bit <<= 1) {
      if (bit == kQpState) continue;
      if ((a.required & bit) != 0) {
        EXPECT_FALSE(ok(kQpState | (a.required & ~bit)))
            << road << " without 0x" << std::hex << bit;
      } else {
        EXPECT_EQ(ok(kQpState | a.required | bit), (a.optional & bit) != 0)
            << road << " with 0x" << std::hex << bit;
      }
    }
  }
}

TEST(QpStateTableTest, ResetAndErrorTakeNoAttributes) {
  for (const QpService service :
       {QpService::kRc, QpService::kUc, QpService::kUd}) {
    for (const QpState to : {QpState::kReset, QpState::kErr}) {
      EXPECT_TRUE(CheckQpTransition(service, QpState::kRts, to, kQpState).ok());
      for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        if (bit == kQpState) continue;
        EXPECT_FALSE(
            CheckQpTransition(service, QpState::kRts, to, kQpState | bit).ok())
            << QpStateName(to) << " with 0x" << std::hex << bit;
      }
    }
  }
}

TEST(QpStateTableTest, TheUsualTransitionsTakeWhatProgramsPass) {
  EXPECT_TRUE(
      CheckQpTransition(QpService::kRc, QpState::kReset, QpState::kInit,
                        kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags)
          .ok());
  EXPECT_TRUE(CheckQpTransition(QpService::kRc, QpState::kInit, QpState::kRtr,
                                kQpState | kQpAv | kQpPathMtu | kQpDestQpn |
                                    kQpRqPsn | kQpMaxDestRdAtomic |
                                    kQpMinRnrTimer)
                  .ok());
  EXPECT_TRUE(CheckQpTransition(QpService::kRc, QpState::kRtr, QpState::kRts,
                                kQpState | kQpTimeout | kQpRetryCnt |
                                    kQpRnrRetry | kQpSqPsn | kQpMaxRdAtomic)
                  .ok());
}

TEST(QpStateTableTest, MessagesNameStatesAndAttributes) {
  const auto text = [](const absl::Status& s) {
    return std::string(s.message());
  };
  EXPECT_THAT(text(CheckQpTransition(QpService::kRc, QpState::kReset,
                                     QpState::kRts, kQpState)),
              HasSubstr("RESET to RTS"));
  EXPECT_THAT(text(CheckQpTransition(QpService::kRc, QpState::kReset,
                                     QpState::kInit, kQpState | kQpPort)),
              HasSubstr("missing qp_access_flags, pkey_index"));
  EXPECT_THAT(
      text(CheckQpTransition(QpService::kRc, QpState::kRts, QpState::kSqd,
                             kQpState | kQpTimeout | 1u << 30)),
      HasSubstr("takes no timeout, mask bits 0x40000000"));
}

// Each service has its own column of the table. Checked against Linux.
TEST(QpStateTableTest, DatagramsAndUnreliableConnectionsHaveTheirOwnColumns) {
  using enum QpState;
  constexpr QpService kUc = QpService::kUc;
  constexpr QpService kUd = QpService::kUd;
  const auto ok = [](QpService service, QpState from, QpState to,
                     uint32_t mask) {
    return CheckQpTransition(service, from, to, mask | kQpState).ok();
  };
  EXPECT_TRUE(ok(kUd, kReset, kInit, kQpPkeyIndex | kQpPort | kQpQkey));
  EXPECT_FALSE(ok(kUd, kReset, kInit, kQpPkeyIndex | kQpPort));
  EXPECT_FALSE(ok(kUd, kReset, kInit, kQpPkeyIndex | kQpPort | kQpAccessFlags));
  EXPECT_TRUE(ok(kUd, kInit, kRtr, 0));
  EXPECT_FALSE(ok(kUd, kInit, kRtr, kQpDestQpn));
  EXPECT_TRUE(ok(kUd, kRtr, kRts, kQpSqPsn));
  EXPECT_FALSE(ok(kUd, kRtr, kRts, 0));
  EXPECT_TRUE(ok(kUd, kSqe, kRts, kQpQkey));
  EXPECT_TRUE(ok(kUc, kInit, kRtr, kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn));
  EXPECT_FALSE(ok(kUc, kInit, kRtr,
                  kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn |
                      kQpMaxDestRdAtomic | kQpMinRnrTimer));
  EXPECT_TRUE(ok(kUc, kRtr, kRts, kQpSqPsn));
  EXPECT_FALSE(ok(kUc, kRtr, kRts, kQpSqPsn | kQpTimeout));
  EXPECT_TRUE(ok(kUc, kSqe, kRts, 0));
  EXPECT_FALSE(ok(QpService::kRc, kSqe, kRts, 0)) << "RC has no SQE";
}

// The state after each transition, as with Linux's siw; "-": refused. siw has
// one state for RESET and INIT. From RTS to SQD it ends the connection, which
// leads to ERR.
constexpr const char* kOfIwarp[] = {
    //     R I T S D E X (RESET INIT RTR RTS SQD SQE ERR)
    /* I */ "III-I-X",
    /* T */ "ITT-T-X",
    /* S */ "ISSSX-X",
    /* D */ "IDD-D-X",
    /* E */ "IEE-E-X",
    /* X */ "IXX-X-X",
};

TEST(QpStateTableTest, ProgramsDoNotConnectQueuePairsOfIwarp) {
  constexpr char kLetters[] = "RITSDEX";
  for (size_t from = 1; from < std::size(kStates); ++from) {
    for (size_t to = 0; to < std::size(kStates); ++to) {
      const QpTransition transition =
          FindQpTransition(QpService::kIwarp, kStates[from], kStates[to]);
      const char expected = kOfIwarp[from - 1][to];
      EXPECT_EQ(transition.valid, expected != '-')
          << QpStateName(kStates[from]) << " to " << QpStateName(kStates[to]);
      if (!transition.valid) continue;
      EXPECT_EQ(kLetters[static_cast<size_t>(transition.enters)], expected)
          << QpStateName(kStates[from]) << " to " << QpStateName(kStates[to]);
    }
  }
  EXPECT_THAT(std::string(CheckQpTransition(QpService::kIwarp, QpState::kInit,
                                            QpState::kRts, kQpState)
                              .message()),
              HasSubstr("rdma_cm connects"));
}

// librdmacm sets the state and the access flags (iw_cm_init_qp_attr);
// ibv_rc_pingpong and others also set attributes that only RoCE uses.
TEST(QpStateTableTest, IwarpIgnoresTheAttributesOfRoce) {
  constexpr uint32_t kOfRc = kQpState | kQpAccessFlags | kQpPkeyIndex |
                             kQpPort | kQpAv | kQpPathMtu | kQpDestQpn |
                             kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer;
  EXPECT_TRUE(
      CheckQpTransition(QpService::kIwarp, QpState::kInit, QpState::kRtr, kOfRc)
          .ok());
  const QpTransition transition =
      FindQpTransition(QpService::kIwarp, QpState::kInit, QpState::kRtr);
  EXPECT_EQ(kOfRc & ~transition.ignored, kQpState | kQpAccessFlags);
  // libibverbs has no such bit.
  EXPECT_FALSE(CheckQpTransition(QpService::kIwarp, QpState::kInit,
                                 QpState::kInit, 1u << 25)
                   .ok());
}

}  // namespace
}  // namespace urnic::control
