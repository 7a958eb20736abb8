#pragma once

// Simulates two RUD windows with a faulty network between them and a simple
// upper layer at each end, with an oracle. Each slot of an end does one
// transfer after another on a pair of contexts: a write or a read, with another
// attempt after a time-out. The network loses, duplicates, reorders and damages
// packets, and repeats old ones much later; in some runs one path dies forever.
// Packets arrive in bursts, and programs poll while a burst is placed. Contexts
// are released and acquired again; in some runs an end restarts or recovers
// with the same numbers. The rules:
//
//   - a byte is placed only for the current transfer of its slot, only at its
//     place, and with the right value;
//   - nothing is placed after any end was told that the transfer is complete,
//     or that access to memory was refused;
//   - an end that is told finds all bytes in memory;
//   - the target is told at most once, and is told if its FIFO had room;
//   - packets from before a restart, or for an earlier owner of a context,
//     change nothing;
//   - no window fails;
//   - when the network works again, all transfers end.

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/link.h"
#include "tests/sim/rud_inbox.h"
#include "tests/sim/world.h"
#include "tests/support/rud_end.h"

namespace urnic::sim {

struct RudStats {
  uint64_t transfers = 0;  // complete
  uint64_t attempts = 0;
  uint64_t refused = 0;   // because memory was gone
  uint64_t replayed = 0;  // old packets
  uint64_t restarts = 0;
  std::array<uint64_t, kRxVerdictCount> verdicts = {};
};

class RudRun {
 public:
  explicit RudRun(uint64_t seed);
  RudStats Run();

 private:
  static constexpr uint32_t kSlots = 8;
  static constexpr uint32_t kRegionBytes = 4096;
  static constexpr uint32_t kUnitPackets = 16;
  static constexpr uint32_t kPaths = 4;

  // What an end does on one pair of contexts: it writes to the slot's region in
  // the other end's memory, or reads it.
  struct Slot {
    bool is_active = false;
    bool is_read = false;
    bool is_settled = false;  // an end was told: nothing may be placed
    bool target_told = false;
    bool target_wanted = false;
    bool asks = false;            // the last command was a state request
    bool needs_contexts = false;  // for the next transfer
    uint64_t tid = 0;
    uint32_t bytes = 0;
    uint16_t stride = 0;
    rud::ContextId own;
    rud::ContextId peers;
    std::vector<uint8_t> data;  // that must arrive
    uint32_t attempts = 0;
    uint64_t timer = 0;  // of the last command
  };
  struct End {
    std::unique_ptr<testing::RudEnd> rnic;
    std::vector<uint8_t> local;   // sources of its writes, targets of its reads
    std::vector<uint8_t> shared;  // what the other end writes and reads
    rud::Pvo local_pvo;
    rud::Pvo shared_pvo;
    std::array<Slot, kSlots> slots;
    std::optional<RudInbox> inbox;
    std::optional<Link> link;  // to this end
  };

  End& Other(const End& end) { return &end == &ends_[0] ? ends_[1] : ends_[0]; }
  void Boot(End& end, uint32_t number);
  void Register(End& end, rud::Pvo& pvo, std::vector<uint8_t>& bytes);
  void TakeContexts(End& end, Slot& slot);
  LinkConfig MakeLink();

  void Begin(End& end, uint32_t slot);
  void Post(End& end, uint32_t slot, uint8_t opcode, uint64_t packets);
  void OnTimeOut(End& end, uint32_t slot, uint64_t timer);
  void Again(End& end, uint32_t slot, uint64_t arrived);
  void Finish(End& end, uint32_t slot);
  void Pump(End& end);
  void ReceiveBurst(End& end, const std::vector<RudInbox::Packet>& burst);
  void Poll(End& end);
  void OnEntry(End& end, const urnic_rud_receive& entry);
  void OnPlaced(End& end, const Placement& placement);
  void OnTold(Slot& slot, const End& target);
  void Restart();
  void Replay(End& end);
  bool MayBegin() const;

  std::vector<uint8_t>& TargetOf(End& end, const Slot& slot) {
    return slot.is_read ? end.local : Other(end).shared;
  }
  static uint32_t OffsetOf(uint32_t slot) { return slot * kRegionBytes; }

  World world_;
  Random random_;
  std::array<End, 2> ends_;
  RudStats stats_;
  uint64_t transfer_ = 0;  // number of the last one
  uint64_t timers_ = 0;
  uint32_t left_ = 0;  // transfers to begin
  bool faulty_ = true;
  bool loses_memory_ = false;
  bool small_fifo_ = false;
  std::optional<uint8_t> dead_path_;
};

}  // namespace urnic::sim
