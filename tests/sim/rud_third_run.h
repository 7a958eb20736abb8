#pragma once

// Simulates third-party transfers between three RUD windows, on networks as in
// rud_run.h. A slot does one transfer after another. Its manager tells the
// source to send to the target, asks the target after a time-out, and makes the
// source send the rest. The windows change roles from transfer to transfer. As
// source and target they take turns with the same contexts; as managers they
// have others. The rules:
//
//   - a byte is placed only at the target of its slot's current transfer, only
//     at its place, and with the right value;
//   - nothing is placed after any of the three was told that the transfer is
//     complete, or that access to memory was refused;
//   - a window that is told finds all bytes in the target's memory, and is told
//     only if that was requested; the target is told once;
//   - a packet that waits for the counter of a slot's completions arrives when
//     all bytes are in memory; a counter counts each transfer once;
//   - no window fails, and all transfers end when the network works again.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/rud_inbox.h"
#include "tests/sim/world.h"
#include "tests/support/rud_end.h"

namespace urnic::sim {

struct RudThirdStats {
  uint64_t transfers = 0;  // complete
  uint64_t attempts = 0;
  uint64_t refused = 0;
  uint64_t signals = 0;  // that have arrived
  std::array<uint64_t, kRxVerdictCount> verdicts = {};
};

class RudThirdRun {
 public:
  explicit RudThirdRun(uint64_t seed);
  RudThirdStats Run();

 private:
  static constexpr uint32_t kJob = 3;
  static constexpr uint8_t kSentinel = 0xd5;
  static constexpr uint64_t kTransferStep = 1 << 8;  // of tids
  static constexpr uint32_t kEnds = 3;
  static constexpr uint32_t kSlots = 8;
  static constexpr uint32_t kRegionBytes = 2048;
  static constexpr uint32_t kUnitPackets = 16;

  struct End {
    uint32_t number = 0;  // of its window
    std::unique_ptr<testing::RudEnd> rnic;
    std::vector<uint8_t> sources;  // a region for each slot
    std::vector<uint8_t> targets;
    rud::Pvo sources_pvo;
    rud::Pvo targets_pvo;
    std::optional<RudInbox> inbox;
    std::optional<Link> link;  // to it
    // Expected values of its counters: completed transfers that it has managed,
    // per slot.
    std::array<uint64_t, kSlots> completed = {};
  };
  struct Slot {
    bool is_active = false;
    bool is_settled = false;  // one was told: nothing may be placed
    bool target_told = false;
    uint8_t notify = 0;
    End* manager = nullptr;
    End* source = nullptr;
    End* target = nullptr;
    // Contexts of each end: as the manager, and in the other roles.
    std::array<rud::ContextId, kEnds> managing;
    std::array<rud::ContextId, kEnds> served;
    uint64_t tid = 0;
    uint32_t bytes = 0;
    uint16_t stride = 0;
    std::vector<uint8_t> data;  // that must arrive
    uint32_t attempts = 0;
    uint64_t timer = 0;  // of the last command
  };

  static wire::Gid AddressOf(uint32_t number) {
    return wire::Gid::FromIpv4(0x0a000000 + number);
  }
  void Boot(End& end, uint32_t number);
  rud::Pvo Register(End& end, std::vector<uint8_t>& bytes);
  void TakeContexts(Slot& slot);
  static uint64_t ContextOf(const Slot& slot, const End& end) {
    const auto& all = &end == slot.manager ? slot.managing : slot.served;
    return all[end.number - 1].value();
  }

  void Begin(uint32_t slot);
  void PostRead(uint32_t slot, uint64_t packets);
  void PostQuestion(uint32_t slot);
  // Posts a packet to the target that waits for the completion of the transfer.
  void PostSignal(uint32_t slot);
  void PostAttempt(uint32_t slot, urnic_rud_send command);
  void Post(End& end, const urnic_rud_send& command);
  void CheckCounters(End& end);
  void OnTimeOut(uint32_t slot, uint64_t timer);
  void Finish(uint32_t slot);
  // Ends without a completion. Takes new contexts, because packets in flight
  // must not meet the next transfer.
  void GiveUp(uint32_t slot);
  void Pump(End& end);
  void ReceiveBurst(End& end, const std::vector<RudInbox::Packet>& burst);
  void Poll(End& end);
  void OnEntry(End& end, const urnic_rud_receive& entry);
  void OnSignal(End& end, const urnic_rud_receive& entry);
  void OnManagersEntry(uint32_t slot, const urnic_rud_receive& entry);
  void OnPlaced(End& end, const Placement& placement);
  void OnTold(uint32_t slot);
  void Replay(End& end);

  static uint8_t CounterOf(uint32_t slot) {
    return static_cast<uint8_t>(slot + 1);
  }
  static uint32_t OffsetOf(uint32_t slot) { return slot * kRegionBytes; }
  static uint64_t AllOf(const Slot& slot) {
    return wire::RudAllPackets(wire::RudPackets(slot.bytes, slot.stride));
  }

  World world_;
  Random random_;
  std::array<End, kEnds> ends_;
  std::array<Slot, kSlots> slots_;
  RudThirdStats stats_;
  uint64_t transfer_ = 0;  // number of the last one
  uint64_t timers_ = 0;
  uint32_t left_ = 0;  // transfers to begin
  bool faulty_ = true;
  bool loses_memory_ = false;
  bool small_fifo_ = false;
};

}  // namespace urnic::sim
