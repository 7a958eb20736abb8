#pragma once

// Cuts operations into units, gives each a lane and a path, and posts the
// commands.

#include <cstdint>

#include "transport/rud/upper/core.h"

namespace urnic::rud::upper {

class Sender {
 public:
  explicit Sender(Core* core) : core_(*core) {}

  // A new operation: begins it, if nothing else waits, or appends it.
  void Start(Operation& operation);
  // Begins what there are lanes, paths and windows for.
  void Pump(Peer& peer);

  // Of a lane that is in no list, which then is in the path's:
  // the next attempt of its unit, with all packets that are missing;
  void SendAgain(Lane& lane, Path& path);
  // or a question what is missing, if that is worth a round trip.
  void AskOrSendAgain(Lane& lane, Path& path);
  // Packets that only the adapter of the peer's window answers.
  void SendProbe(Lane& lane, Path& path);

  // The lane is in no list; its command is no longer under way.
  static void Detach(Lane& lane) {
    OpenList& list = lane.pair->peer->list;
    if (__builtin_expect(list.lane == &lane, 0)) list.lane = nullptr;
    lane.path->under_way.Remove(lane);
    lane.path->shared.Account(lane.under_way, 0);
    lane.under_way = 0;
  }

 private:
  // A path with room, a free lane and room in the ring; null: there is none.
  Path* PickPath(Peer& peer);
  bool PickUnit(Peer& peer, Unit& unit);
  bool PickFrom(Peer& peer, OperationList& queue, Unit& unit);
  bool BeginMessage(Peer& peer, Operation& operation) const;
  // Small writes that leave together share packets. Adds one to that of the
  // peer's open list; false: it needs a packet of its own.
  bool Join(Peer& peer, uint32_t operation);
  // The same for the next of those that wait.
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
