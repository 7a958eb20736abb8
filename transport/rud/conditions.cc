#include "transport/rud/conditions.h"

#include <algorithm>

namespace urnic::rud {

Conditions::Conditions() {
  for (uint32_t i = 0; i < kMaxHeld; ++i) free_.Add(static_cast<uint8_t>(i));
}

bool Conditions::Hold(const urnic_rud_send& command) {
  if (free_.count == 0) return false;
  const uint8_t place = free_.places[--free_.count];
  commands_[place] = command;
  waiting_.Add(place);
  return true;
}

template <typename Matches>
void Conditions::Move(List& to, Matches&& matches) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < waiting_.count; ++i) {
    const uint8_t place = waiting_.places[i];
    if (matches(commands_[place])) {
      to.Add(place);
    } else {
      waiting_.places[kept++] = place;
    }
  }
  waiting_.count = kept;
}

void Conditions::Release(uint8_t counter) {
  Move(ready_, [&](const urnic_rud_send& command) {
    return command.condition == counter && Holds(command);
  });
}

uint32_t Conditions::CountHeld(uint8_t counter) const {
  return static_cast<uint32_t>(std::count_if(
      waiting_.places.begin(), waiting_.places.begin() + waiting_.count,
      [&](uint8_t place) { return commands_[place].condition == counter; }));
}

void Conditions::Drop(uint8_t counter) {
  Move(free_, [&](const urnic_rud_send& command) {
    return command.condition == counter;
  });
}

void Conditions::DropAll() {
  Move(free_, [](const urnic_rud_send&) { return true; });
  while (ready_.count != 0) free_.Add(ready_.places[--ready_.count]);
}

const urnic_rud_send& Conditions::Take() {
  URNIC_CHECK(ready_.count != 0);
  taken_ = ready_.places[0];
  std::copy(ready_.places.begin() + 1, ready_.places.begin() + ready_.count,
            ready_.places.begin());
  --ready_.count;
  return commands_[taken_];
}

void Conditions::Publish() {
  while (done_.count != 0) free_.Add(done_.places[--done_.count]);
}

}  // namespace urnic::rud
