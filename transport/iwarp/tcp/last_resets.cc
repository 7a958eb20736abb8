#include "transport/iwarp/tcp/last_resets.h"

#include "transport/base/check.h"

namespace urnic::tcp {

LastResets::LastResets(uint32_t capacity) : records_(capacity) {
  URNIC_CHECK(capacity != 0 && (capacity & (capacity - 1)) == 0);
}

void LastResets::Append(const Record& record) {
  if (size() == records_.size()) ++first_;
  At(end_++) = record;
}

void LastResets::Add(const Reset& reset, Time now) {
  Append({reset, now + kInterval, kRepeats});
}

std::optional<LastResets::Reset> LastResets::OnTimer(Time now) {
  if (first_ == end_ || now < At(first_).due) return std::nullopt;
  Record record = At(first_++);
  if (--record.left != 0) {
    record.due = now + kInterval;
    Append(record);
  }
  return record.reset;
}

}  // namespace urnic::tcp
