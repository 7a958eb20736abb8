#pragma once

// What one open descriptor of the rdma_cm device has to tell its program.
// Not safe by itself: the service's mutex protects all channels and ids, so
// that events can move from one channel to another with their id.

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_set>
#include <vector>

namespace urnic::rdmacm {

struct Id;
struct Multicast;

// enum rdma_cm_event_type of <rdma/rdma_cma.h>: those that there are.
enum class EventType : uint32_t {
  kAddrResolved = 0,
  kAddrError = 1,
  kRouteResolved = 2,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kMulticastJoin = 12,
  kTimewaitExit = 15,
};

struct QueuedEvent {
  std::shared_ptr<Id> owner;  // whose events_reported it will count in
  // The new id of a CONNECT_REQUEST, which gets its number on delivery.
  std::shared_ptr<Id> request;
  std::shared_ptr<Multicast> multicast;
  rdma_ucm_event_resp response = {};
};

class EventChannel {
 public:
  // Makes the descriptor readable, or not. Called at every change, never
  // waits; on behalf of any thread, also of the engine's.
  class Readiness {
   public:
    virtual void SetReady(bool ready) = 0;

   protected:
    ~Readiness() = default;
  };

  explicit EventChannel(Readiness& readiness) : readiness_(readiness) {}
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  // The ids that the program reaches through this channel.
  std::unordered_set<std::shared_ptr<Id>>& ids() { return ids_; }

  void Push(QueuedEvent event);
  // The oldest event, or null.
  QueuedEvent* Front() { return events_.empty() ? nullptr : &events_.front(); }
  // REQUIRES: Front() is not null.
  void Pop();
  // Sets the readiness anew: the thread that waited may have consumed its sign
  // and taken no event.
  void Refresh() { Update(); }

  // Takes the events that belong to an id out, in order.
  std::vector<QueuedEvent> TakeOf(const Id& owner);
  // Takes the event out that tells of a new id. False: there is none.
  bool TakeRequest(const Id& request);
  // The same for one multicast group, and forgets them.
  void Drop(const Multicast& multicast);

  bool empty() const { return events_.empty(); }

 private:
  void Update() { readiness_.SetReady(!events_.empty()); }

  Readiness& readiness_;
  std::unordered_set<std::shared_ptr<Id>> ids_;
  std::deque<QueuedEvent> events_;
};

}  // namespace urnic::rdmacm
