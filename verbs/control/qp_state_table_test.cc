#include "verbs/control/qp_state_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "verbs/control/qp_attributes.h"

namespace urnic::control {
namespace {

using ::testing::HasSubstr;

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr,
                               QpState::kRts,   QpState::kSqd,  QpState::kSqe,
                               QpState::kErr};

// The table once more, as words: rows "from", columns "to". What IBTA 11.2.5.2
// and Linux allow for RC.
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

TEST(QpStateTableTest, EachRequiredAttributeIsRequired) {
  for (QpState from : kStates) {
    for (QpState to : kStates) {
      const QpTransition t = FindQpTransition(QpService::kRc, from, to);
      if (!t.valid) continue;
      EXPECT_EQ(t.required & t.optional, 0u);
      EXPECT_TRUE(
          CheckQpTransition(QpService::kRc, from, to, t.required | kQpState)
              .ok());
      for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        if ((t.required & bit) == 0) continue;
        EXPECT_FALSE(
            CheckQpTransition(QpService::kRc, from, to, t.required & ~bit).ok())
            << QpStateName(from) << " to " << QpStateName(to) << " without 0x"
            << std::hex << bit;
      }
    }
  }
}

TEST(QpStateTableTest, EachOptionalAttributeIsTakenAndNoOther) {
  for (QpState from : kStates) {
    for (QpState to : kStates) {
      const QpTransition t = FindQpTransition(QpService::kRc, from, to);
      if (!t.valid) continue;
      for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        if (((t.required | kQpState) & bit) != 0) continue;
        const bool ok =
            CheckQpTransition(QpService::kRc, from, to, t.required | bit).ok();
        EXPECT_EQ(ok, (t.optional & bit) != 0)
            << QpStateName(from) << " to " << QpStateName(to) << " with 0x"
            << std::hex << bit;
      }
    }
  }
}

TEST(QpStateTableTest, TheUsualRoadTakesWhatProgramsPass) {
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

// A column of the table each, against Linux's words for them.
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

}  // namespace
}  // namespace urnic::control
