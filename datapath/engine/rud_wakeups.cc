#include "datapath/engine/rud_wakeups.h"

namespace urnic {

void RudWakeups::Bind(const WakeRules& rules,
                      std::vector<std::shared_ptr<WakeHandler>> handlers,
                      Time now) {
  rules_ = rules;
  handlers_ = std::move(handlers);
  deadline_ = Time::Infinite();
  published_ = Load(indices_.producer);
  if (!handlers_.empty() && HasUnread()) OnEntries(now);
}

void RudWakeups::OnEntries(Time now) {
  const uint32_t unread = published_ - Load(indices_.consumer);
  if (unread >= rules_.entries && rules_.entries != WakeRules::kNever)
    return Tell();
  if (rules_.delay != Duration() && deadline_ == Time::Infinite())
    deadline_ = now + rules_.delay;
}

void RudWakeups::OnTimer(Time now) {
  if (now >= deadline_) Tell();
}

void RudWakeups::Tell() {
  deadline_ = Time::Infinite();
  pending_.Set();
  Deliver();
}

void RudWakeups::Hint() {
  WakeHandler* const handler = rud::FirstReady(handlers_);
  if (handler != nullptr && handler->ready.Take()) handler->Wake();
}

}  // namespace urnic
