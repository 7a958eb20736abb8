#pragma once

// The counters of a window, and the commands that wait until a counter has
// reached a value (document C, conditional operations).
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
  static constexpr uint32_t kCounters = URNIC_RUD_COUNTERS;  // 0: none
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
  // Increases the counter by one. 0: does nothing.
  void Count(uint8_t counter) {
    if (counter != 0) Set(counter, values_[counter] + 1);
  }
  // The counter that counts packets for the receive FIFO. 0: none does.
  void CountPacketsBy(uint8_t counter) { packets_ = counter; }
  void CountPacket() { Count(packets_); }

  // Whether the command's condition holds. REQUIRES: condition < kCounters
  bool Holds(const urnic_rud_send& command) const {
    return command.condition == 0 ||
           values_[command.condition] +
                   MUTATION(rud_releases_too_early, 0, 1) >=
               command.value;
  }
  // Keeps a command until its condition holds. False: kMaxHeld commands wait.
  bool Hold(const urnic_rud_send& command);
  // How many commands wait for this counter, and for any counter.
  uint32_t CountHeld(uint8_t counter) const;
  uint32_t held() const { return waiting_.count; }
  // Drops the commands that wait for this counter; all commands.
  void Drop(uint8_t counter);
  void DropAll();

  bool HasReady() const { return ready_.count != 0; }
  // The next command whose condition holds, or has held at some time. They come
  // in the order in which their conditions began to hold; those of one counter
  // come in the order in which they were posted. Call Finish() before the next
  // Take(). REQUIRES: HasReady()
  const urnic_rud_send& Take();
  // The command that was taken is done. It is valid until Publish().
  void Finish() { done_.Add(taken_); }
  // Call this when the payload of the finished commands has been copied.
  void Publish();

 private:
  struct List {
    void Add(uint8_t place) { places[count++] = place; }

    uint32_t count = 0;
    std::array<uint8_t, kMaxHeld> places;
  };
  static_assert(kMaxHeld <= UINT8_MAX + 1);

  // Moves to `ready_` the commands whose condition on this counter now holds.
  void Release(uint8_t counter);
  // Moves the waiting commands for which `matches(command)` is true to `to`, in
  // order.
  template <typename Matches>
  void Move(List& to, Matches&& matches);

  std::array<uint64_t, kCounters> values_ = {};
  uint8_t packets_ = 0;
  std::array<urnic_rud_send, kMaxHeld> commands_;
  // Each place of `commands_` is in one of these lists, or it is `taken_`.
  List free_;
  List waiting_;
  List ready_;
  List done_;
  uint8_t taken_ = 0;
};

}  // namespace urnic::rud
