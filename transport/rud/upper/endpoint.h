#pragma once

// The upper layer of RUD (docs/design/0014-rud.md). An endpoint exchanges
// reliable writes, reads and messages with the endpoints of other programs.
// Each end has one or several windows, one per NIC. The network may lose and
// reorder packets.
//
//   programs exchange their Address() by any means, and add each other
//   Write(), Read(), Send() ──► units on lanes ──► commands in the send FIFOs
//   receive FIFOs ──► Poll() ──► events
//
// Operations complete in any order, and messages are delivered in any order.
// Each operation that was accepted ends with one event. A write is complete
// when its bytes are in the peer's memory, a read when they are in ours, and a
// message when all of it is in the peer's receive FIFO. The peer's program gets
// each message once and whole. An operation that fails may have had a part of
// its effect.
//
// Pure: no thread, no clock, and no I/O except for rings and adapters. It
// allocates memory when peers are added, contexts are granted or paths fail,
// and for messages of several packets.
//
// Thread: one at a time.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/rud/upper/adapter.h"
#include "transport/rud/upper/core.h"
#include "transport/rud/upper/handshake.h"
#include "transport/rud/upper/recovery.h"
#include "transport/rud/upper/sender.h"
#include "transport/rud/upper/types.h"

namespace urnic::rud::upper {

class Endpoint {
 public:
  // The adapters outlive the endpoint. All are windows of the same job in the
  // same process, so a PVO is valid for all of them. `incarnation`: random.
  // REQUIRES: 1 to kMaxNics adapters, incarnation != 0
  Endpoint(const EndpointConfig& config, std::span<Adapter* const> adapters,
           uint64_t incarnation);
  // Removes all peers and gives back all contexts. Operations end without an
  // event.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // The address, for AddPeer() of other endpoints. It is different for each
  // Endpoint object.
  std::vector<uint8_t> Address() const;

  // Returns the peer's number, from 1. 0: this is not an address, or no adapter
  // has room for the peer or a route to it. Pairs of NICs without a route
  // between them are not used. The peer must add us, too, before operations
  // begin to move; the program may start them before. If one end removes the
  // other and adds it again, the other end must do the same.
  uint32_t AddPeer(Time now, std::span<const uint8_t> address);
  // Its operations end with kCanceled. Our writes may still reach its memory.
  // The number may be given to another peer.
  void RemovePeer(Time now, uint32_t peer);
  // The peer has ended, or no path to it has worked for too long. Until it is
  // removed, all operations with it end with kPeerLost.
  bool IsLost(uint32_t peer) const;

  // These accept an operation, or refuse it with kTryAgain, kUnknownPeer,
  // kPeerLost or kTooLong. The event returns `user`; until then, the memory
  // belongs to the endpoint. Commands are sent by the next Flush() or Poll().
  //
  // A local PVO that the RNIC may not read or write makes the window fail, as
  // in document C. The operation ends with kBadLocal. Other windows, if there
  // are any, take over the other operations of that window.
  Status Write(Time now, uint32_t peer, uint64_t local_pvo, uint64_t remote_pvo,
               uint64_t bytes, uint64_t user);
  Status Read(Time now, uint32_t peer, uint64_t local_pvo, uint64_t remote_pvo,
              uint64_t bytes, uint64_t user);
  Status Send(Time now, uint32_t peer, uint64_t local_pvo, uint64_t bytes,
              uint64_t user);
  // At most URNIC_RUD_INLINE bytes, which are copied. More: kTooLong.
  Status WriteInline(Time now, uint32_t peer, std::span<const uint8_t> data,
                     uint64_t remote_pvo, uint64_t user);
  Status SendInline(Time now, uint32_t peer, std::span<const uint8_t> data,
                    uint64_t user);

  // Makes the commands visible to the RNICs, which send them.
  void Flush();
  // Reads the receive FIFOs, runs the timers, and fills events. Returns how
  // many. Messages from earlier calls become invalid. If the previous call was
  // min_time_out or longer ago, timers wait until the fourth call from then on,
  // because answers may have arrived meanwhile. REQUIRES: !events.empty()
  uint32_t Poll(Time now, std::span<Event> events);
  // The latest time for the next Poll(), if no entry arrives before. May be too
  // early.
  Time next_deadline() const {
    return core_.operations.done() != 0 ? core_.now : core_.deadline;
  }

  // There are entries that Poll() has not seen.
  bool HasEntries() const {
    return std::ranges::any_of(core_.nics, [](const auto& nic) {
      return nic->receive.Front() != nullptr;
    });
  }

  const UpperStats& stats() const { return core_.stats; }
  // Null: no peer has this number. For tests and tools.
  const Peer* peer(uint32_t number) const {
    return number < core_.peers.size() ? core_.peers[number].get() : nullptr;
  }

 private:
  // A new operation, complete except for its PVOs. Null: `status` says why.
  Operation* Take(Time now, uint32_t peer, OperationKind kind, uint64_t bytes,
                  uint64_t user, Status& status);
  bool AddPairs(Peer& peer);
  void AddPair(Peer& peer, Nic& nic, uint8_t peer_nic);

  // Fills events from the entries of the NIC. Returns how many.
  uint32_t PollNic(Nic& nic, std::span<Event> events);
  // True: the event was filled.
  bool OnEntry(Nic& nic, const urnic_rud_receive& entry, const uint8_t* payload,
               Event& event);
  bool OnMessage(Nic& nic, const urnic_rud_receive& entry,
                 const uint8_t* payload, Event& event);
  void OnControl(Nic& nic, const urnic_rud_receive& entry,
                 const uint8_t* payload);
  void OnComplete(Nic& nic, const urnic_rud_receive& entry, UnitKind other);
  void OnState(Nic& nic, const urnic_rud_receive& entry);
  void OnRefusal(Nic& nic, const urnic_rud_receive& entry);
  void OnRefusedCommand(Nic& nic, const urnic_rud_send& command);
  // The lane to which the entry belongs. Null: its unit has ended.
  Lane* FindLane(Nic& nic, const urnic_rud_receive& entry);
  // The pair that an entry came from. Null: not from a peer.
  Pair* FindPair(Nic& nic, const urnic_rud_receive& entry) const;
  // Takes the lane out of the list of its path, or of parked lanes.
  void Release(Lane& lane);
  void Free(Lane& lane);
  void Divide(Lane& lane);
  void Measure(Lane& lane, const urnic_rud_receive& entry, bool is_complete);

  bool MayTimeOut();
  void Recycle();
  void RunTimers();
  void SettleWindows();
  void Pump();

  Core core_;
  Time polled_at_;
  uint8_t polls_to_wait_ = 0;  // before timers may run
  Sender sender_;
  Handshake handshake_;
  Recovery recovery_;
  std::vector<Peer*> holders_;  // peers with messages handed out
};

}  // namespace urnic::rud::upper
