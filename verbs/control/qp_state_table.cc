#include "verbs/control/qp_state_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "verbs/control/qp_attributes.h"

namespace urnic::control {

namespace {


struct Row {
  QpState from;
  QpState to;
  uint32_t required;
  uint32_t optional;
};

constexpr uint32_t kWhileRunning = kQpCurState | kQpAccessFlags |
                                   kQpMinRnrTimer | kQpAltPath |
                                   kQpPathMigState;

//= IBTA 11.2.5.2
// Any state to RESET or ERR takes no attributes and is not listed.
constexpr Row kRows[] = {
    {QpState::kReset, QpState::kInit, kQpPkeyIndex | kQpPort | kQpAccessFlags,
     0},
    {QpState::kInit, QpState::kInit, 0,
     kQpPkeyIndex | kQpPort | kQpAccessFlags},
    {QpState::kInit, QpState::kRtr,
     kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic |
         kQpMinRnrTimer,
     kQpAltPath | kQpAccessFlags | kQpPkeyIndex},
    {QpState::kRtr, QpState::kRts,
     kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpSqPsn | kQpMaxRdAtomic,
     kWhileRunning},
    {QpState::kRts, QpState::kRts, 0, kWhileRunning},
    {QpState::kRts, QpState::kSqd, 0, kQpEnSqdAsyncNotify},
    {QpState::kSqd, QpState::kRts, 0, kWhileRunning},
    {QpState::kSqd, QpState::kSqd, 0,
     kQpPort | kQpAv | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxRdAtomic |
         kQpMaxDestRdAtomic | kQpAltPath | kQpPkeyIndex | kQpAccessFlags |
         kQpMinRnrTimer | kQpPathMigState},
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

QpTransition FindQpTransition(QpState from, QpState to) {
  if (to == QpState::kReset || to == QpState::kErr) {
    // RESET to ERR is the one road that does not exist.
    return {.valid = from != QpState::kReset || to == QpState::kReset};
  }
  for (const Row& row : kRows) {
    if (row.from == from && row.to == to) {
      return {
          .valid = true, .required = row.required, .optional = row.optional};
    }
  }
  return {};
}

absl::Status CheckQpTransition(QpState from, QpState to, uint32_t mask) {
  const std::string road =
      absl::StrCat(QpStateName(from), " to ", QpStateName(to));
  const QpTransition transition = FindQpTransition(from, to);
  if (!transition.valid) {
    return absl::InvalidArgumentError(
        absl::StrCat(road, ": no such transition"));
  }
  if (const uint32_t missing = transition.required & ~mask) {
    return absl::InvalidArgumentError(
        absl::StrCat(road, ": missing ", NamesOf(missing)));
  }
  const uint32_t allowed = transition.required | transition.optional | kQpState;
  if (const uint32_t extra = mask & ~allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat(road, ": takes no ", NamesOf(extra)));
  }
  return absl::OkStatus();
}

}  // namespace urnic::control
