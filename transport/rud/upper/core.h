#pragma once

// State that the parts of an endpoint share.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "transport/base/mutation.h"
#include "transport/rud/upper/operations.h"
#include "transport/rud/upper/peer.h"
#include "transport/rud/upper/types.h"

namespace urnic::rud::upper {

struct UpperStats {
  uint64_t units = 0;     // complete
  uint64_t commands = 0;  // posted
  uint64_t shared = 0;    // writes that joined the packet of another write
  uint64_t asked = 0;     // state requests
  uint64_t packets_again = 0;
  uint64_t time_outs = 0;
  uint64_t early = 0;  // state requests for units that were complete
  uint64_t dead_paths = 0;
  uint64_t revived_paths = 0;
  uint64_t moved = 0;   // units, to another window of ours
  uint64_t fenced = 0;  // contexts, by the peer
  uint64_t stale = 0;   // entries for units that have ended
  uint64_t bad_control = 0;
};

struct Core {
  Core(const EndpointConfig& configuration, uint64_t incarnation_of_it)
      : config(configuration),
        incarnation(incarnation_of_it),
        operations(configuration.operations) {}

  // Poll() must run at this time at the latest.
  void Wake(Time when) { deadline = std::min(deadline, when); }
  // The peer has something to send, and perhaps this is possible now.
  void Touch(Peer& peer) {
    if (peer.is_pending) return;
    peer.is_pending = true;
    pending.push_back(&peer);
  }
  // Calls `visit(const Unit&)` for each unit of the lane. It may end the unit.
  template <typename F>
  void ForEachUnit(const Lane& lane, F&& visit) {
    Unit unit = lane.unit;
    for (uint32_t left = lane.writes; left != 0; --left) {
      const uint32_t next = operations[unit.operation].next;
      visit(std::as_const(unit));
      unit = {next, 0};
    }
  }
  // Takes the units from the lane. They wait for another lane.
  void GiveUnitsBack(const Lane& lane) {
    Peer& peer = *lane.pair->peer;
    MUTATION(rud_upper_forgets_who_else_was_in_a_list,
             ForEachUnit(lane,
                         [&](const Unit& unit) { peer.again.push_back(unit); }),
             peer.again.push_back(lane.unit));
    Touch(peer);
  }
  void FailUnits(const Lane& lane, Status status) {
    ForEachUnit(lane, [&](const Unit& unit) { FailUnit(unit, status); });
  }
  // A unit of an operation has ended.
  void EndUnit(const Unit& unit) {
    Operation& operation = operations[unit.operation];
    --operation.open;
    if (operation.open == 0 && operation.begun == operation.units)
      End(unit.operation);
  }
  // A unit has failed. Its operation ends when the other units that have begun
  // have ended.
  void FailUnit(const Unit& unit, Status status) {
    Operation& operation = operations[unit.operation];
    if (operation.status == Status::kOk) operation.status = status;
    // The other units will not begin: the sender looks at the status when it
    // takes the operation from its queue.
    Touch(*operation.peer);
    EndUnit(unit);
  }

  // All units of the operation have ended or will never begin.
  void End(uint32_t index) {
    Operation& operation = operations[index];
    if (operation.kind == OperationKind::kSend && operation.begun != 0) {
      Peer& peer = *operation.peer;
      peer.sent.OnDone(operation.sequence, peer.next_sequence);
      if (operation.open_message_bytes != 0) {
        --peer.open_messages;
        peer.open_bytes -= operation.open_message_bytes;
      }
      Touch(peer);
    }
    operations.End(index);
  }

  const EndpointConfig config;
  const uint64_t incarnation;
  Time now;
  Time deadline = Time::Infinite();
  std::vector<std::unique_ptr<Nic>> nics;
  std::vector<std::unique_ptr<Peer>> peers;  // by number, from 1
  OperationTable operations;
  std::vector<Peer*> pending;
  std::vector<Path*> touched;
  UpperStats stats;
};

}  // namespace urnic::rud::upper
