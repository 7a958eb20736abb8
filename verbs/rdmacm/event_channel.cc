#include "verbs/rdmacm/event_channel.h"

#include <algorithm>
#include <utility>

namespace urnic::rdmacm {

void EventChannel::Push(QueuedEvent event) {
  events_.push_back(std::move(event));
  Update(/*news=*/true);
}

void EventChannel::Pop() {
  events_.pop_front();
  Update();
}

std::vector<QueuedEvent> EventChannel::TakeOf(const Id& owner) {
  std::vector<QueuedEvent> taken;
  if (std::none_of(events_.begin(), events_.end(), [&](const auto& event) {
        return event.owner.get() == &owner;
      })) {
    return taken;
  }
  std::deque<QueuedEvent> left;
  for (QueuedEvent& event : events_) {
    if (event.owner.get() == &owner) {
      taken.push_back(std::move(event));
    } else {
      left.push_back(std::move(event));
    }
  }
  events_ = std::move(left);
  Update();
  return taken;
}

bool EventChannel::TakeRequest(const Id& request) {
  const auto it = std::find_if(
      events_.begin(), events_.end(),
      [&](const auto& event) { return event.request.get() == &request; });
  if (it == events_.end()) return false;
  events_.erase(it);
  Update();
  return true;
}

void EventChannel::Drop(const Multicast& multicast) {
  std::erase_if(events_, [&](const QueuedEvent& event) {
    return event.multicast.get() == &multicast;
  });
  Update();
}

}  // namespace urnic::rdmacm
