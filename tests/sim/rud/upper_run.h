#pragma once

// Simulates two or three endpoints of RUD's upper layer on a faulty network,
// with an oracle. Each endpoint has one or two NICs, and each pair of NICs has
// one to four paths. The network loses, duplicates, reorders and damages
// packets, and repeats old ones. Paths die and come back. A NIC dies, in some
// runs forever. A process restarts. Programs write to each other's memory, read
// it, and send messages. The rules:
//
//   - each operation that was accepted ends once;
//   - a byte is placed only for an operation that has not ended, or has failed,
//     only at its place, and with the right value;
//   - when an operation is reported complete, all its bytes are in memory;
//   - a message arrives at most once, and whole; one that is reported complete
//     arrives;
//   - no window fails, and at the end the upper layer has no context left;
//   - when the network works again, all operations complete.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/sim/rud/rud_net.h"
#include "tests/sim/world.h"
#include "transport/rud/upper/endpoint.h"

namespace urnic::sim {

struct RudUpperStats {
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t messages = 0;
  uint64_t restarts = 0;
  uint64_t dead_nics = 0;
  rud::upper::UpperStats upper;
  std::array<uint64_t, kRxVerdictCount> verdicts = {};
};

class RudUpperRun {
 public:
  explicit RudUpperRun(uint64_t seed);
  RudUpperStats Run();

 private:
  static constexpr uint32_t kMaxNodes = 3;
  static constexpr uint32_t kNics = 2;
  static constexpr uint32_t kSlots = 8;  // between two restarts
  static constexpr uint32_t kAllSlots = 16;
  static constexpr uint32_t kRegionBytes = 20480;

  enum class Kind : uint8_t { kWrite, kRead, kSend };
  struct Slot {
    bool is_active = false;
    // One side does not know its end, so packets may still arrive.
    bool is_abandoned = false;
    Kind kind = Kind::kWrite;
    uint32_t target = 0;  // node
    uint32_t life = 0;    // number of starts of the target
    uint64_t message = 0;
    std::vector<uint8_t> data;
  };
  struct Node {
    uint32_t index = 0;
    uint32_t life = 0;
    std::vector<std::unique_ptr<RudNic>> nics;
    std::unique_ptr<rud::upper::Endpoint> endpoint;
    std::array<uint32_t, kMaxNodes> peers = {};  // numbers of the other nodes
    std::vector<uint8_t> local;
    std::vector<uint8_t> shared;  // a part for the slots of each node
    rud::Pvo local_pvo;
    rud::Pvo shared_pvo;
    std::array<Slot, kAllSlots> slots;
    Time wake = Time::Infinite();
  };

  LinkConfig MakeLink();
  void Boot(Node& node);
  void Meet(Node& node, Node& other);
  void Begin(Node& node, uint32_t slot);
  bool Give(Node& node, uint32_t slot);
  void Wake(Node& node, Duration after);
  void Poll(Node& node);
  void OnEvent(Node& node, const rud::upper::Event& event);
  void OnDone(Node& node, const rud::upper::Event& event);
  void OnMessage(const rud::upper::Event& event);
  void OnPlaced(Node& node, const Placement& placement);
  void PlanFaults();
  void KillNic(bool forever);
  void KillPath();
  void Restart();
  void Replay();
  bool IsDone() const;
  void Explain() const;
  void CheckEnd();
  std::vector<uint8_t>& MemoryOf(uint32_t node, const Slot& slot);
  size_t PlaceOf(uint32_t node, uint32_t slot, const Slot& of) const;

  World world_;
  Random random_;
  std::unique_ptr<RudNet> net_;
  rud::upper::EndpointConfig config_;
  std::array<Node, kMaxNodes> nodes_;
  std::map<uint64_t, std::vector<uint8_t>> messages_;  // in flight
  // Messages that were reported complete, but have not arrived: their targets.
  std::map<uint64_t, uint32_t> must_come_;
  RudUpperStats stats_;
  uint64_t next_message_ = 1;
  uint32_t node_count_ = 2;
  uint32_t nic_count_ = 1;
  uint32_t packet_bytes_ = 64;
  uint32_t fifo_entries_ = 256;
  uint32_t left_ = 0;
  bool faulty_ = true;
  Time settled_at_;  // then packets that waited for a NIC have arrived
  bool slow_programs_ = false;
  bool small_writes_ = false;  // most operations are small writes that begin
                               // together
  bool has_restarted_ = false;
};

}  // namespace urnic::sim
