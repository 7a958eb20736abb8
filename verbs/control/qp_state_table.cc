#include "verbs/control/qp_state_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "verbs/control/qp_attributes.h"

namespace urnic::control {

namespace {

constexpr uint8_t Of(QpService service) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(service));
}
constexpr uint8_t kRc = Of(QpService::kRc);
constexpr uint8_t kUc = Of(QpService::kUc);
constexpr uint8_t kUd = Of(QpService::kUd);
constexpr uint8_t kXi = Of(QpService::kXrcInitiator);
constexpr uint8_t kXt = Of(QpService::kXrcTarget);
constexpr uint8_t kReliable = kRc | kXi | kXt;

struct Row {
  uint8_t services;
  QpState from;
  QpState to;
  uint32_t required;
  uint32_t optional;
};

constexpr uint32_t kConnected =
    kQpCurState | kQpAccessFlags | kQpAltPath | kQpPathMigState;
constexpr uint32_t kWhileRunning = kConnected | kQpMinRnrTimer;
constexpr uint32_t kInitial = kQpPkeyIndex | kQpPort | kQpAccessFlags;
constexpr uint32_t kInitialUd = kQpPkeyIndex | kQpPort | kQpQkey;
constexpr uint32_t kPeer = kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn;
constexpr uint32_t kRetries =
    kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxRdAtomic;

//= IBTA 11.2.5.2: each state transition of a queue pair has required and
//= optional attributes
// Any state to RESET or ERR takes no attributes and is not listed.
constexpr Row kRows[] = {
    {kReliable | kUc, QpState::kReset, QpState::kInit, kInitial, 0},
    {kUd, QpState::kReset, QpState::kInit, kInitialUd, 0},
    {kReliable | kUc, QpState::kInit, QpState::kInit, 0, kInitial},
    {kUd, QpState::kInit, QpState::kInit, 0, kInitialUd},
    {kRc | kXt, QpState::kInit, QpState::kRtr,
     kPeer | kQpMaxDestRdAtomic | kQpMinRnrTimer,
     kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    {kUc, QpState::kInit, QpState::kRtr, kPeer,
     kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    // perftest gives each end of XRC the attributes of both ends.
    {kXi, QpState::kInit, QpState::kRtr, kPeer,
     kQpAltPath | kQpAccessFlags | kQpPkeyIndex | kQpMaxDestRdAtomic |
         kQpMinRnrTimer},
    {kUd, QpState::kInit, QpState::kRtr, 0, kQpPkeyIndex | kQpQkey},
    {kRc | kXi, QpState::kRtr, QpState::kRts, kRetries | kQpSqPsn,
     kWhileRunning},
    {kXt, QpState::kRtr, QpState::kRts, kQpTimeout | kQpSqPsn,
     kWhileRunning | kQpRetryCnt | kQpRnrRetry | kQpMaxRdAtomic},
    {kUc, QpState::kRtr, QpState::kRts, kQpSqPsn, kConnected},
    {kUd, QpState::kRtr, QpState::kRts, kQpSqPsn, kQpCurState | kQpQkey},
    {kReliable, QpState::kRts, QpState::kRts, 0, kWhileRunning},
    {kUc, QpState::kRts, QpState::kRts, 0, kConnected},
    {kUd, QpState::kRts, QpState::kRts, 0, kQpCurState | kQpQkey},
    {kReliable | kUc | kUd, QpState::kRts, QpState::kSqd, 0,
     kQpEnSqdAsyncNotify},
    {kReliable, QpState::kSqd, QpState::kRts, 0, kWhileRunning},
    {kUc, QpState::kSqd, QpState::kRts, 0, kConnected},
    {kUd, QpState::kSqd, QpState::kRts, 0, kQpCurState | kQpQkey},
    {kReliable, QpState::kSqd, QpState::kSqd, 0,
     kQpPort | kQpAv | kRetries | kQpMaxDestRdAtomic | kQpAltPath |
         kQpPkeyIndex | kQpAccessFlags | kQpMinRnrTimer | kQpPathMigState},
    {kUc, QpState::kSqd, QpState::kSqd, 0,
     kQpAv | kQpAltPath | kQpPkeyIndex | kQpAccessFlags | kQpPathMigState},
    {kUd, QpState::kSqd, QpState::kSqd, 0, kQpPkeyIndex | kQpQkey},
    {kUc, QpState::kSqe, QpState::kRts, 0, kQpCurState | kQpAccessFlags},
    {kUd, QpState::kSqe, QpState::kRts, 0, kQpCurState | kQpQkey},
};

constexpr struct {
  uint32_t bit;
  const char* name;
} kNames[] = {
    {kQpState, "qp_state"},
    {kQpCurState, "cur_qp_state"},
    {kQpEnSqdAsyncNotify, "en_sqd_async_notify"},
    {kQpAccessFlags, "qp_access_flags"},
    {kQpPkeyIndex, "pkey_index"},
    {kQpPort, "port_num"},
    {kQpQkey, "qkey"},
    {kQpAv, "ah_attr"},
    {kQpPathMtu, "path_mtu"},
    {kQpTimeout, "timeout"},
    {kQpRetryCnt, "retry_cnt"},
    {kQpRnrRetry, "rnr_retry"},
    {kQpRqPsn, "rq_psn"},
    {kQpMaxRdAtomic, "max_rd_atomic"},
    {kQpAltPath, "alt_ah_attr"},
    {kQpMinRnrTimer, "min_rnr_timer"},
    {kQpSqPsn, "sq_psn"},
    {kQpMaxDestRdAtomic, "max_dest_rd_atomic"},
    {kQpPathMigState, "path_mig_state"},
    {kQpDestQpn, "dest_qp_num"},
};

std::string NamesOf(uint32_t mask) {
  std::string text;
  for (const auto& entry : kNames) {
    if ((mask & entry.bit) == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", entry.name);
    mask &= ~entry.bit;
  }
  if (mask != 0) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "mask bits 0x",
                    absl::Hex(mask));
  }
  return text;
}

}  // namespace

const char* QpStateName(QpState state) {
  static constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS",
                                            "SQD",   "SQE",  "ERR"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(kStates) ? kStates[index] : "?";
}

namespace {

// Follows Linux's siw (siw_verbs_modify_qp), which uses only the state and the
// access flags. `from` is never RESET.
QpTransition FindIwarpTransition(QpState from, QpState to) {
  constexpr uint32_t kTaken = kQpState | kQpCurState | kQpAccessFlags;
  constexpr uint32_t kStandard = (kQpDestQpn << 1) - 1;
  QpTransition transition = {.valid = true,
                             .optional = kStandard,
                             .enters = from,
                             .ignored = kStandard & ~kTaken};
  switch (to) {
    case QpState::kReset:
      transition.enters = QpState::kInit;
      break;
    case QpState::kErr:
      transition.enters = to;
      break;
    case QpState::kInit:
    case QpState::kRtr:
      break;
    case QpState::kRts:
      transition.valid = from == to;
      break;
    case QpState::kSqd:  // librdmacm disconnects this way
      if (from == QpState::kRts) transition.enters = QpState::kErr;
      break;
    case QpState::kSqe:
      transition.valid = false;
      break;
  }
  return transition;
}

}  // namespace

QpTransition FindQpTransition(QpService service, QpState from, QpState to) {
  if (service == QpService::kIwarp) return FindIwarpTransition(from, to);
  // A window is in RTS when it is made, and cannot be used again after ERR.
  if (service == QpService::kRud)
    return {.valid = to == QpState::kErr, .enters = to};
  if (to == QpState::kReset || to == QpState::kErr) {
    // Valid from any state, except from RESET to ERR.
    return {.valid = from != QpState::kReset || to == QpState::kReset,
            .enters = to};
  }
  for (const Row& row : kRows) {
    if ((row.services & Of(service)) != 0 && row.from == from && row.to == to) {
      return {.valid = true,
              .required = row.required,
              .optional = row.optional,
              .enters = to};
    }
  }
  return {};
}

absl::Status CheckQpTransition(QpService service, QpState from, QpState to,
                               uint32_t mask) {
  const std::string road =
      absl::StrCat(QpStateName(from), " to ", QpStateName(to));
  const QpTransition transition = FindQpTransition(service, from, to);
  if (!transition.valid) {
    return Refusal(
        ErrorCode::kBadTransition,
        absl::StrCat(
            road, ": no such transition",
            service == QpService::kIwarp && to == QpState::kRts
                ? "; rdma_cm connects the queue pairs of an iWARP device"
                : ""));
  }
  if (const uint32_t missing = transition.required & ~mask) {
    return Refusal(ErrorCode::kBadTransition,
                   absl::StrCat(road, ": missing ", NamesOf(missing)));
  }
  const uint32_t allowed = transition.required | transition.optional | kQpState;
  if (const uint32_t extra = mask & ~allowed) {
    return Refusal(ErrorCode::kBadTransition,
                   absl::StrCat(road, ": takes no ", NamesOf(extra)));
  }
  return absl::OkStatus();
}

}  // namespace urnic::control
