#pragma once

// What an endpoint knows about a peer: its windows, the pairs of windows with
// their paths and lanes, what waits to be sent, and partial messages.

#include <cstdint>
#include <memory>
#include <vector>

#include "transport/rud/upper/address.h"
#include "transport/rud/upper/lane.h"
#include "transport/rud/upper/message_tag.h"
#include "transport/rud/upper/operations.h"
#include "transport/rud/upper/path.h"
#include "transport/rud/upper/reassembly.h"
#include "transport/rud/upper/rings.h"

namespace urnic::rud::upper {

class Peer;

// One of our windows.
struct Nic {
  Nic(Adapter* window, uint8_t number_of_it)
      : adapter(window),
        number(number_of_it),
        send(window->Rings()),
        receive(window->Rings()),
        address(window->Address()),
        packet_bytes(window->PacketBytes()) {}

  // The lane of one of our contexts. Null: none.
  void SetLane(ContextId own, Lane* lane) {
    if (own.number >= lanes.size()) lanes.resize(own.number + 1);
    lanes[own.number] = lane;
  }
  Lane* LaneOf(ContextId own) const {
    Lane* const lane = own.number < lanes.size() ? lanes[own.number] : nullptr;
    return lane != nullptr && lane->own == own ? lane : nullptr;
  }

  Adapter* adapter;
  uint8_t number;
  bool failed = false;  // no longer executes commands
  // The program still uses a message in an entry that was read.
  bool holds_messages = false;
  SendRing send;
  ReceiveRing receive;
  const WindowAddress address;
  const uint32_t packet_bytes;
  std::vector<Lane*> lanes;  // by the number of our context
  std::vector<Pair*> pairs;  // by the adapter's number of the peer
};

// One of our windows and one of the peer's.
struct Pair {
  Peer* peer = nullptr;
  Nic* nic = nullptr;
  uint8_t peer_nic = 0;     // index
  uint32_t handle = 0;      // the adapter's number of the peer's window; 0:
                            // none
  uint32_t window = 0;      // of the peer
  uint32_t valid_from = 0;  // position in the receive ring
  std::vector<Path> paths;
  LaneList free;
  Lane* probe = nullptr;   // carries only probes
  uint8_t next_probe = 0;  // path
  Duration probe_gap;
  Time probe_due = Time::Infinite();

  // False: there is no route between the two, as between some subnets.
  bool is_reachable() const { return handle != 0; }
};

// A window of the peer, and the contexts that it has granted us.
struct PeerNic {
  uint32_t wanted = 0;  // contexts
  bool is_granted = false;
  uint8_t tries = 0;  // hellos without an answer
  Time hello_due;
  std::vector<std::unique_ptr<Lane>> lanes;  // by slot
};

// One of our contexts, which the peer may use.
struct Granted {
  ContextId context = kNoContext;  // none: no context was free
  uint32_t generation = 0;
};

// A small write whose command is not visible to the RNIC yet, so other writes
// may join it.
struct OpenList {
  Lane* lane = nullptr;   // null: there is none
  uint32_t position = 0;  // of the command in the ring
  uint32_t last = 0;      // the last operation
};

class Peer {
 public:
  Peer(uint32_t number_of_it, EndpointAddress&& address_of_it,
       const ReassemblyLimits& limits)
      : number(number_of_it),
        address(std::move(address_of_it)),
        reassembly(limits) {}

  bool HasPending() const {
    return !again.empty() || !memory_queue.empty() || !message_queue.empty();
  }

  const uint32_t number;
  const EndpointAddress address;
  uint16_t stride = 0;
  bool is_lost = false;
  bool is_pending = false;            // in the endpoint's list
  bool turn = false;                  // messages and memory take turns
  uint32_t living = 0;                // paths that are not dead
  Time pathless_since;                // valid if living == 0
  Time leaves_at = Time::Infinite();  // end of the wait after its BYE

  std::vector<Pair> pairs;
  std::vector<PeerNic> nics;
  std::vector<std::vector<Granted>> granted;  // by our NIC, by slot
  // Paths that are not dead, the best first.
  std::vector<Path*> order;
  uint32_t completions = 0;  // since `order` was made

  LaneList parked;
  LaneList fencing;
  uint8_t fence_tries = 0;
  Time fence_due = Time::Infinite();

  std::vector<Unit> again;  // units that wait for another lane
  OperationList memory_queue;
  OperationList message_queue;
  OpenList list;
  // Messages in flight.
  uint32_t next_sequence = 0;
  uint32_t open_messages = 0;  // of several packets
  uint64_t open_bytes = 0;     // of these, in whole units
  MessageWindow sent;
  Reassembly reassembly;
};

}  // namespace urnic::rud::upper
