#pragma once

// The upper layer of RUD (docs/design/0014-rud.md): reliable writes, reads and
// messages between programs, over one or several windows (NICs) of each, which
// lose and reorder packets.
//
//   a program gives its Address() to others, by any means, and adds theirs
//   Write(), Read(), Send() ──► units on lanes ──► commands in the send FIFOs
//   receive FIFOs ──► Poll() ──► events
//
// Operations end in any order, and messages arrive in any order. Each operation
// that was accepted ends with one event. A write is done when its bytes are in
// the peer's memory, a read when they are in ours, a message when all of it is
// in the peer's receive FIFO: its program gets it once, and whole. An operation
// that ends with another status may have had a part of its effect.
//
// Pure: no thread, no clock, no I/O but the rings and the adapters. Memory is
// allocated when peers are added, when contexts are granted, when paths fail,
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
  // The adapters outlive the endpoint; all are windows of one job, and see the
  // same PVOs. `incarnation`: random. REQUIRES: 1 to kMaxNics adapters,
  // incarnation != 0
  Endpoint(const EndpointConfig& config, std::span<Adapter* const> adapters,
           uint64_t incarnation);
  // Ends without telling anyone: contexts are given back, peers removed.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // For AddPeer() of others. It changes with each endpoint.
  std::vector<uint8_t> Address() const;

  // A peer's number, from 1; 0: it is not an address, or no adapter has room
  // for it or a way to it. Pairs of NICs without a way between them are not
  // used. The peer must add us, too, before operations begin; they may be given
  // before. An endpoint that is removed at one end is removed and made again at
  // the other one as well.
  uint32_t AddPeer(Time now, std::span<const uint8_t> address);
  // Its operations end with kCanceled. Writes of ours may still reach its
  // memory. Its number may be used again.
  void RemovePeer(Time now, uint32_t peer);
  // No path to it worked for too long: all operations end with kPeerLost, until
  // it is removed.
  bool IsLost(uint32_t peer) const;

  // Each takes the operation, or says why not: kTryAgain, kUnknownPeer,
  // kPeerLost, kTooLong. `user` is that of the event. The memory belongs to the
  // endpoint until then. Commands leave with the next Flush() or Poll().
  //
  // A local PVO that the RNIC may not read or write makes the window fail, as
  // in document C: the operation ends with kBadLocal, and others are taken over
  // by other windows, if there are any.
  Status Write(Time now, uint32_t peer, uint64_t local_pvo, uint64_t remote_pvo,
               uint64_t bytes, uint64_t user);
  Status Read(Time now, uint32_t peer, uint64_t local_pvo, uint64_t remote_pvo,
              uint64_t bytes, uint64_t user);
  Status Send(Time now, uint32_t peer, uint64_t local_pvo, uint64_t bytes,
              uint64_t user);
  // Up to URNIC_RUD_INLINE bytes, which are copied. More: kTooLong.
  Status WriteInline(Time now, uint32_t peer, std::span<const uint8_t> data,
                     uint64_t remote_pvo, uint64_t user);
  Status SendInline(Time now, uint32_t peer, std::span<const uint8_t> data,
                    uint64_t user);

  // Shows the RNIC what was given to us.
  void Flush();
  // Reads the receive FIFOs, runs the timers, and fills events: how many.
  // Messages that an earlier call has handed out end. If the last call was long
  // ago (min_time_out), timers end with the fourth call from then on: the
  // answers may have come meanwhile. REQUIRES: !events.empty()
  uint32_t Poll(Time now, std::span<Event> events);
  // When Poll() must be called although no entry has arrived. It may be too
  // early.
  Time next_deadline() const {
    return core_.operations.done() != 0 ? core_.now : core_.deadline;
  }

  // Something has arrived that Poll() has not seen.
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
  // An operation that can begin, but for its PVOs. Null: the status says why.
  Operation* Take(Time now, uint32_t peer, OperationKind kind, uint64_t bytes,
                  uint64_t user, Status& status);
  bool AddPairs(Peer& peer);
  void AddPair(Peer& peer, Nic& nic, uint8_t peer_nic);

  // Fills events from the nic's entries; how many.
  uint32_t PollNic(Nic& nic, std::span<Event> events);
  // True: the event is filled.
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
  // The lane whose unit the entry is about. Null: of a unit that has ended.
  Lane* FindLane(Nic& nic, const urnic_rud_receive& entry);
  // Null: not from a peer.
  Pair* FindPair(Nic& nic, const urnic_rud_receive& entry) const;
  // Takes the lane off its path.
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
  uint8_t polls_to_wait_ = 0;  // before timers may end
  Sender sender_;
  Handshake handshake_;
  Recovery recovery_;
  std::vector<Peer*> holders_;  // peers whose messages the program has
};

}  // namespace urnic::rud::upper
