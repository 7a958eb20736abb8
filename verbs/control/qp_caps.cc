#include "verbs/control/qp_caps.h"

#include <cstdint>

#include "ras/errors/refusal.h"
#include "verbs/control/errors.h"
#include "verbs/control/limits.h"

namespace urnic::control {

absl::Status CheckCaps(const QpCaps& caps) {
  const struct {
    const char* name;
    uint32_t value;
    uint32_t limit;
  } kChecks[] = {
      {"max_send_wr", caps.max_send_wr, kMaxQpWr},
      {"max_recv_wr", caps.max_recv_wr, kMaxQpWr},
      {"max_send_sge", caps.max_send_sge, kMaxSge},
      {"max_recv_sge", caps.max_recv_sge, kMaxSge},
      {"max_inline_data", caps.max_inline_data, kMaxInline},
  };
  for (const auto& check : kChecks) {
    if (absl::Status s = CheckRange(check.name, check.value, 0, check.limit);
        !s.ok()) {
      return Prefixed("create_qp: ", s);
    }
  }
  return absl::OkStatus();
}

}  // namespace urnic::control
