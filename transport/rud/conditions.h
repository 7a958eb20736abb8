#pragma once

// Counters of a window, and commands that wait for them (document C,
// conditional operations): a command is released when a counter has reached a
// value.
//
// Thread: the holder of the engine's token.

#include <array>
#include <cstdint>

#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "verbs/abi/rud_abi.h"

namespace urnic::rud {

class Conditions {
 public:
  static constexpr uint32_t kCounters = URNIC_RUD_COUNTERS;  // number 0: none
  static constexpr uint32_t kMaxHeld = URNIC_RUD_MAX_HELD;

  Conditions();
  Conditions(const Conditions&) = delete;
  Conditions& operator=(const Conditions&) = delete;

  // REQUIRES: counter < kCounters
  uint64_t value(uint8_t counter) const { return values_[counter]; }
  void Set(uint8_t counter, uint64_t value) {
    values_[counter] = value;
    if (waiting_.count != 0) Release(counter);
  }
  // Counts one. 0: nothing.
  void Count(uint8_t counter) {
    if (counter != 0) Set(counter, values_[counter] + 1);
  }
  // The counter of packets for the receive FIFO.
  void CountPacketsBy(uint8_t counter) { packets_ = counter; }
  void CountPacket() { Count(packets_); }

  // Whether a command may be executed. REQUIRES: condition < kCounters
  bool Holds(const urnic_rud_send& command) const {
    return command.condition == 0 ||
           values_[command.condition] +
                   MUTATION(rud_releases_too_early, 0, 1) >=
               command.value;
  }
  // Keeps a command until its condition holds. False: there are kMaxHeld.
  bool Hold(const urnic_rud_send& command);
  // How many wait for a counter; for any.
  uint32_t CountHeld(uint8_t counter) const;
  uint32_t held() const { return waiting_.count; }
  // Those that wait for a counter are forgotten.
  void Drop(uint8_t counter);
  void DropAll();

  bool HasReady() const { return ready_.count != 0; }
  // The next command whose condition holds, or has held: in the order in which
  // they came to hold, and those of one counter as they were posted. Finish()
  // it before the next. REQUIRES: HasReady()
  const urnic_rud_send& Take();
  // What was taken is done; it is valid until Publish().
  void Finish() { done_.Add(taken_); }
  // The payload of what is done has been copied.
  void Publish();

 private:
  struct List {
    void Add(uint8_t place) { places[count++] = place; }

    uint32_t count = 0;
    std::array<uint8_t, kMaxHeld> places;
  };
  static_assert(kMaxHeld <= UINT8_MAX + 1);

  // Moves those that wait for the counter, and do so no longer, or all of them.
  void Release(uint8_t counter);
  // Moves to `to` what `matches(command)`, and keeps the order.
  template <typename Matches>
  void Move(List& to, Matches&& matches);

  std::array<uint64_t, kCounters> values_ = {};
  uint8_t packets_ = 0;
  std::array<urnic_rud_send, kMaxHeld> commands_;
  // Each place of `commands_` is in one of them, or taken.
  List free_;
  List waiting_;
  List ready_;
  List done_;
  uint8_t taken_ = 0;
};

}  // namespace urnic::rud
