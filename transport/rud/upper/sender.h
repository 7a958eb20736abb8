#pragma once

// Divides operations into units, assigns a lane and a path to each, and posts
// the commands.

#include <cstdint>

#include "transport/rud/upper/core.h"

namespace urnic::rud::upper {

class Sender {
 public:
  explicit Sender(Core* core) : core_(*core) {}

  // A new operation: begins it, or queues it if others wait.
  void Start(Operation& operation);
  // Begins as many units as lanes, paths and congestion windows allow.
  void Pump(Peer& peer);

  // These two post the next attempt of a lane's unit, and put the lane into the
  // path's list. REQUIRES: the lane is in no list. The first retransmits all
  // packets that are missing;
  void SendAgain(Lane& lane, Path& path);
  // the second first asks what is missing, if that is worth a round trip.
  void AskOrSendAgain(Lane& lane, Path& path);
  // Sends packets that only the adapter of the peer's window answers.
  void SendProbe(Lane& lane, Path& path);

  // Takes the lane out of its path's list. Its command no longer counts as in
  // flight.
  static void Detach(Lane& lane) {
    OpenList& list = lane.pair->peer->list;
    if (__builtin_expect(list.lane == &lane, 0)) list.lane = nullptr;
    lane.path->under_way.Remove(lane);
    lane.path->shared.Account(lane.under_way, 0);
    lane.under_way = 0;
  }

 private:
  // A path with room in its window and in the ring, and with a free lane. Null:
  // there is none.
  Path* PickPath(Peer& peer);
  bool PickUnit(Peer& peer, Unit& unit);
  bool PickFrom(Peer& peer, OperationList& queue, Unit& unit);
  bool BeginMessage(Peer& peer, Operation& operation) const;
  // Small writes that leave together share packets. Adds the write to the
  // peer's open list. False: it needs a packet of its own.
  bool Join(Peer& peer, uint32_t operation);
  // The same for the next write that waits.
  bool JoinNext(Peer& peer);
  void AppendWrite(Lane& lane, const Operation& operation, uint8_t* slot);
  static void FillList(urnic_rud_send& entry, Lane& lane);
  void Begin(Lane& lane, Path& path, const Unit& unit);
  void Post(Lane& lane, Path& path, uint8_t opcode, uint64_t packets);
  static void Fill(urnic_rud_send& entry, const Lane& lane, const Path& path,
                   uint8_t opcode, uint64_t packets);
  void FillOperation(urnic_rud_send& entry, const Lane& lane, uint64_t packets);
  void FillWrites(urnic_rud_send& entry, Lane& lane, uint8_t* slot);
  void Attach(Lane& lane, Path& path, uint32_t packets);
  static void NextAttempt(Lane& lane);

  Core& core_;
};

}  // namespace urnic::rud::upper
