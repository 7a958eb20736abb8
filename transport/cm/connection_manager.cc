#include "transport/cm/connection_manager.h"

#include "transport/base/check.h"
#include "transport/base/mutation.h"
#include "transport/cm/messages.h"

namespace urnic::cm {

ConnectionManager::ConnectionManager(const Config& config)
    : config_(config), routing_(config) {
  URNIC_CHECK(config.ack_delay_code < 32);
}

Place* ConnectionManager::Allocate() {
  Place* p = routing_.Allocate();
  if (p != nullptr) heap_.Grow(routing_.slots());
  return p;
}

void ConnectionManager::Settle(Place& p, bool answered) {
  routing_.Settle(p, answered);
  if (p.deadline.IsInfinite()) {
    heap_.Clear(p.slot);
  } else {
    heap_.Set(p.slot, p.deadline);
  }
  if (p.orphan && p.state == State::kIdle) routing_.Free(p);
}

// --- Passive side ------------------------------------------------------------

int ConnectionManager::Listen(uint64_t service_id, uint64_t mask, uint64_t user,
                              Handle& out) {
  if (mask == 0) mask = UINT64_MAX;
  service_id &= mask;
  if (routing_.HasListener(service_id, mask)) return EADDRINUSE;
  Place* p = Allocate();
  if (p == nullptr) return ENOMEM;
  p->state = State::kListen;
  p->user = user;
  p->service_id = service_id;
  p->service_mask = mask;
  routing_.AddListener(*p);
  held_.OnListen([&](uint64_t id) { return (id & mask) == service_id; });
  out = routing_.handle(*p);
  return 0;
}

int ConnectionManager::Unlisten(Handle listener) {
  Place* p = routing_.Find(listener);
  if (p == nullptr) return EBADF;
  if (p->state != State::kListen) return EINVAL;
  routing_.RemoveListener(*p);
  if (routing_.FindListener(p->service_id) == nullptr) {
    held_.OnUnlisten(p->service_id);
  }
  routing_.Free(*p);
  return 0;
}

int ConnectionManager::Accept(Handle handle, const AcceptParams& params,
                              Time now, Sink& sink) {
  return Call(handle, now, sink, [&](Connection& c, Step& step) {
    return machine_.Accept(c, params, step);
  });
}

int ConnectionManager::Reject(Handle handle, const RejectParams& params,
                              Time now, Sink& sink) {
  return Call(handle, now, sink, [&](Connection& c, Step& step) {
    return machine_.Reject(c, params, step);
  });
}

int ConnectionManager::EstablishByTraffic(Handle handle, Sink& sink) {
  return Call(handle, Time(), sink, [&](Connection& c, Step& step) {
    return machine_.EstablishByTraffic(c, step);
  });
}

// --- Active side -------------------------------------------------------------

int ConnectionManager::Connect(const ConnectParams& params, uint64_t user,
                               Time now, Sink& sink, Handle& out) {
  if (const int error = Check(params); error != 0) return error;
  Place* p = Allocate();
  if (p == nullptr) return ENOMEM;
  p->mad_path = params.mad_path;
  routing_.Attach(*p);
  out = routing_.handle(*p);
  return Take(*p, now, sink, [&](Step& step) {
    machine_.Connect(*p, params, user, step);
    return 0;
  });
}

int ConnectionManager::SendRtu(Handle handle,
                               std::span<const uint8_t> private_data,
                               Sink& sink) {
  return Call(handle, Time(), sink, [&](Connection& c, Step& step) {
    return machine_.SendRtu(c, private_data, step);
  });
}

// --- Either side -------------------------------------------------------------

int ConnectionManager::PrepareMra(Handle handle, uint8_t service_timeout_code) {
  Place* p = routing_.Find(handle);
  if (p == nullptr) return EBADF;
  const int error = machine_.PrepareMra(*p, service_timeout_code);
  Settle(*p, /*answered=*/false);
  return error;
}

int ConnectionManager::Disconnect(Handle handle,
                                  std::span<const uint8_t> private_data,
                                  Time now, Sink& sink) {
  return Call(handle, now, sink, [&](Connection& c, Step& step) {
    return machine_.Disconnect(c, private_data, step);
  });
}

int ConnectionManager::SendDrep(Handle handle,
                                std::span<const uint8_t> private_data, Time now,
                                Sink& sink) {
  return Call(handle, now, sink, [&](Connection& c, Step& step) {
    return machine_.SendDrep(c, private_data, step);
  });
}

// --- Datagrams ---------------------------------------------------------------

int ConnectionManager::SidrRequest(const SidrRequestParams& params,
                                   uint64_t user, Time now, Sink& sink,
                                   Handle& out) {
  if (const int error = Check(params); error != 0) return error;
  Place* p = Allocate();
  if (p == nullptr) return ENOMEM;
  p->mad_path = params.mad_path;
  routing_.Attach(*p);
  out = routing_.handle(*p);
  return Take(*p, now, sink, [&](Step& step) {
    machine_.RequestSidr(*p, params, user, step);
    return 0;
  });
}

int ConnectionManager::SidrReply(Handle handle, const SidrReplyParams& params,
                                 Sink& sink) {
  return Call(handle, Time(), sink, [&](Connection& c, Step& step) {
    return machine_.SidrReply(c, params, step);
  });
}

// --- All ---------------------------------------------------------------------

int ConnectionManager::Destroy(Handle handle, Time now, Sink& sink) {
  Place* p = routing_.Find(handle);
  if (p == nullptr) return EBADF;
  if (p->state == State::kListen) return Unlisten(handle);
  return Take(*p, now, sink, [&](Step& step) {
    machine_.Destroy(*p, step);
    return 0;
  });
}

int ConnectionManager::SetUser(Handle handle, uint64_t user) {
  Place* p = routing_.Find(handle);
  if (p == nullptr) return EBADF;
  p->user = user;
  return 0;
}

uint32_t ConnectionManager::HurryDisconnects(Duration interval, uint8_t repeats,
                                             Time now, Sink& sink) {
  RetryHeld(Time::Infinite(), now, sink);
  for (uint32_t i = 0; i < routing_.slots() && unanswered_dreqs() > 0; ++i) {
    Place& p = routing_.slot(i);
    if (!p.used || p.state != State::kDreqSent) continue;
    StateMachine::Hurry(p, interval, repeats, now);
    Settle(p, /*answered=*/false);
  }
  return unanswered_dreqs();
}

void ConnectionManager::OnTimer(Time now, Sink& sink) {
  while (heap_.next() <= now && !heap_.next().IsInfinite()) {
    Place& p = routing_.slot(heap_.next_item());
    Take(p, now, sink, [&](Step& step) {
      machine_.OnDeadline(p, step);
      return 0;
    });
  }
  RetryHeld(now, now, sink);
}

// --- Moving ------------------------------------------------------------------

std::vector<uint32_t> ConnectionManager::CommIds() const {
  std::vector<uint32_t> ids;
  ids.reserve(in_use());
  routing_.ForEach([&](const Place& p) { ids.push_back(p.local_comm_id); });
  return ids;
}

bool ConnectionManager::Copy(uint32_t local_comm_id,
                             MovedConnection& out) const {
  const Place* p = routing_.FindOurs(local_comm_id);
  if (p == nullptr) return false;
  out = {.ca_guid = config_.ca_guid,
         .answered = routing_.HasAnswered(*p),
         .displaced = p->displaced,
         .connection = *p};
  return true;
}

int ConnectionManager::Forget(uint32_t local_comm_id) {
  Place* p = routing_.FindOurs(local_comm_id);
  if (p == nullptr) return EBADF;
  p->state = State::kIdle;
  p->deadline = Time::Infinite();
  p->orphan = true;
  Settle(*p, /*answered=*/false);
  return 0;
}

int ConnectionManager::Adopt(const MovedConnection& moved, Handle& out) {
  const Connection& c = moved.connection;
  const net::PathQuery& from = c.mad_path;
  if (moved.ca_guid != config_.ca_guid) return EXDEV;
  if (routing_.FindOurs(c.local_comm_id) != nullptr) return EEXIST;
  const bool doubled =
      c.state == State::kSidrReqReceived
          ? routing_.FindSidr(from, c.remote_comm_id) != nullptr
          : HoldsRemoteQp(c) && routing_.FindStale(from, c.remote_ca_guid,
                                                   c.remote_qpn) != nullptr;
  if (doubled) return EADDRINUSE;
  if (routing_.full()) return ENOMEM;
  Place* p = routing_.Adopt(c.local_comm_id);
  if (p == nullptr) return EACCES;
  heap_.Grow(routing_.slots());
  static_cast<Connection&>(*p) = c;
  routing_.Attach(*p);
  if (IsHalfOpen(c.state)) {
    routing_.AddHalfOpen(
        *p, MUTATION(cm_images_forget_listeners,
                     routing_.FindListener(c.service_id), nullptr));
  }
  if (moved.displaced) routing_.SetDisplaced(*p);
  Settle(*p, moved.answered);
  out = routing_.handle(*p);
  return 0;
}

// --- Queries -----------------------------------------------------------------

State ConnectionManager::state(Handle handle) const {
  const Place* p = routing_.Find(handle);
  return p == nullptr ? State::kIdle : p->state;
}

uint32_t ConnectionManager::local_comm_id(Handle handle) const {
  const Place* p = routing_.Find(handle);
  return p == nullptr ? 0 : p->local_comm_id;
}

uint32_t ConnectionManager::remote_comm_id(Handle handle) const {
  const Place* p = routing_.Find(handle);
  return p == nullptr ? 0 : p->remote_comm_id;
}

int ConnectionManager::GetQpAttributes(Handle handle, QpAttributes& out) const {
  const Place* p = routing_.Find(handle);
  return p == nullptr ? EBADF : StateMachine::GetQpAttributes(*p, out);
}

void ConnectionManager::CheckInvariants() const {
  routing_.CheckInvariants();
  for (uint32_t i = 0; i < routing_.slots(); ++i) {
    const Place& p = routing_.slot(i);
    URNIC_CHECK(heap_.Has(i) == (p.used && !p.deadline.IsInfinite()));
    if (p.used) StateMachine::CheckInvariants(p);
  }
}

}  // namespace urnic::cm
