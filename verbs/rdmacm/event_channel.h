#pragma once

// The events of one open descriptor of the rdma_cm device. Not thread-safe: the
// service's mutex protects all channels and ids, so that events can move from
// one channel to another with their id.

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_set>
#include <vector>

#include "verbs/rdmacm/cm_types.h"

namespace urnic::rdmacm {

struct Id;
struct Multicast;

struct QueuedEvent {
  std::shared_ptr<Id> owner;  // counts it in events_reported on delivery
  // The new id of a CONNECT_REQUEST, which gets its number on delivery.
  std::shared_ptr<Id> request;
  std::shared_ptr<Multicast> multicast;
  rdma_ucm_event_resp response = {};
};

class EventChannel {
 public:
  // Makes the descriptor readable, or unreadable. Called at every change, by
  // any thread, including the engine's. Must not wait.
  class Readiness {
   public:
    // `news`: an event was added.
    virtual void SetReady(bool ready, bool news) = 0;

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
  // Sets the readiness again: a waiting thread may have consumed the signal
  // without taking an event.
  void Refresh() { Update(); }

  // Removes and returns the events of an id, in order.
  std::vector<QueuedEvent> TakeOf(const Id& owner);
  // Removes the event that reports a new id. False: there is none.
  bool TakeRequest(const Id& request);
  // Discards the events of a multicast group.
  void Drop(const Multicast& multicast);

  bool empty() const { return events_.empty(); }

 private:
  void Update(bool news = false) {
    readiness_.SetReady(!events_.empty(), news);
  }

  Readiness& readiness_;
  std::unordered_set<std::shared_ptr<Id>> ids_;
  std::deque<QueuedEvent> events_;
};

}  // namespace urnic::rdmacm
