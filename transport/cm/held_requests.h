#pragma once

// Requests for a service whose listener has just gone. A server that takes one
// connection per listener closes it and listens again; perftest -R does so
// between its two connections. A client that is faster than the server would be
// rejected, and over shared memory clients are that fast. Therefore the request
// waits for the next listener, at most kPatience. Then it is rejected like any
// request without a listener.
//
// Bounded: at most kMost requests wait, for the last kMost services that lost
// their listener. Any other request is rejected immediately. A waiting request
// is not a connection: its repetitions are ignored, and no image carries it,
// because the peer asks again.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "transport/base/time.h"
#include "transport/net/path.h"
#include "transport/wire/cm_messages.h"

namespace urnic::cm {

class HeldRequests {
 public:
  static constexpr uint32_t kMost = 16;
  // Many times as long as a server takes to listen again, and much shorter than
  // a client waits for an answer.
  static constexpr Duration kPatience = Duration::Milliseconds(100);

  struct Request {
    wire::CmReq req;
    net::PathQuery from;
    Time due;  // to be tried again, or rejected
  };

  // The only listener of this service id is gone.
  void OnUnlisten(uint64_t service_id) {
    gone_[next_gone_++ % kMost] = service_id;
  }

  // There is a new listener, for the services of which `hears(service_id)` is
  // true: their requests are due now.
  template <typename F>
  void OnListen(const F& hears) {
    for (auto& held : held_) {
      if (held.has_value() && hears(held->req.service_id.value())) {
        next_ = held->due = Time();
      }
    }
    for (auto& gone : gone_) {
      if (gone.has_value() && hears(*gone)) gone.reset();
    }
  }

  // For a request without a listener. False: it must be rejected now.
  bool Hold(const wire::CmReq& req, const net::PathQuery& from, Time now) {
    if (Find(from, req.local_comm_id.value()) != nullptr) return true;
    if (std::ranges::find(gone_, std::optional(req.service_id.value())) ==
        gone_.end()) {
      return false;
    }
    for (auto& held : held_) {
      if (held.has_value()) continue;
      held = Request{req, from, now + kPatience};
      next_ = std::min(next_, held->due);
      return true;
    }
    return false;
  }

  // The peer has given it up.
  void Drop(const net::PathQuery& from, uint32_t their_comm_id) {
    if (auto* held = Find(from, their_comm_id); held != nullptr) {
      (void)Take(*held);
    }
  }

  // Removes one that is due.
  std::optional<Request> TakeDue(Time now) {
    for (auto& held : held_) {
      if (held.has_value() && held->due <= now) return Take(held);
    }
    return std::nullopt;
  }

  // Asked after each turn of the engine.
  Time next() const { return next_; }

 private:
  std::optional<Request> Take(std::optional<Request>& held) {
    const auto taken = std::exchange(held, std::nullopt);
    next_ = Time::Infinite();
    for (const auto& other : held_) {
      if (other.has_value()) next_ = std::min(next_, other->due);
    }
    return taken;
  }

  std::optional<Request>* Find(const net::PathQuery& from,
                               uint32_t their_comm_id) {
    for (auto& held : held_) {
      if (held.has_value() && held->from.remote == from.remote &&
          held->req.local_comm_id.value() == their_comm_id) {
        return &held;
      }
    }
    return nullptr;
  }

  std::array<std::optional<Request>, kMost> held_;
  std::array<std::optional<uint64_t>, kMost> gone_;
  uint32_t next_gone_ = 0;
  Time next_ = Time::Infinite();
};

}  // namespace urnic::cm
