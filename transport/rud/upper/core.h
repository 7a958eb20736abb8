#pragma once

// What the parts of an endpoint share.

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
  uint64_t shared = 0;    // writes that went in a packet that others had begun
  uint64_t asked = 0;     // state requests
  uint64_t packets_again = 0;
  uint64_t time_outs = 0;
  uint64_t early = 0;  // asked, and it was complete
  uint64_t dead_paths = 0;
  uint64_t revived_paths = 0;
  uint64_t moved = 0;   // units, to another window of ours
  uint64_t fenced = 0;  // by the peer
  uint64_t stale = 0;   // entries of units that have ended
  uint64_t bad_control = 0;
};

struct Core {
  Core(const EndpointConfig& configuration, uint64_t incarnation_of_it)
      : config(configuration),
        incarnation(incarnation_of_it),
        operations(configuration.operations) {}

  // Something happens at this time, if nothing changes until then.
  void Wake(Time when) { deadline = std::min(deadline, when); }
  // The peer has work that may be possible now.
  void Touch(Peer& peer) {
    if (peer.is_pending) return;
    peer.is_pending = true;
    pending.push_back(&peer);
  }
  // Calls `visit(const Unit&)` for all that the lane carries; it may end them.
  template <typename F>
  void ForEachUnit(const Lane& lane, F&& visit) {
    Unit unit = lane.unit;
    for (uint32_t left = lane.writes; left != 0; --left) {
      const uint32_t next = operations[unit.operation].next;
      visit(std::as_const(unit));
      unit = {next, 0};
    }
  }
  // The lane's units wait for another lane.
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
  // A unit of the operation has ended.
  void EndUnit(const Unit& unit) {
    Operation& operation = operations[unit.operation];
    --operation.open;
    if (operation.open == 0 && operation.begun == operation.units)
      End(unit.operation);
  }
  // A unit has ended, and so has its operation as soon as its other units have.
  void FailUnit(const Unit& unit, Status status) {
    Operation& operation = operations[unit.operation];
    if (operation.status == Status::kOk) operation.status = status;
    // Those that have not begun never will: the sender finds it in its queue.
    Touch(*operation.peer);
    EndUnit(unit);
  }

  // All units of the operation have ended, or will never begin.
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
