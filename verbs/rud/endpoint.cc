// The functions of urnic_ep.h, by the upper layer.

#include "transport/rud/upper/endpoint.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "datapath/guest/monotonic_clock.h"
#include "transport/rud/upper/peer.h"
#include "verbs/direct/endpoint_table.h"
#include "verbs/rud/sleeper.h"
#include "verbs/rud/window_adapter.h"

namespace urnic::rud {
namespace {

using upper::Status;

template <typename C, typename Ours>
constexpr bool IsSame(C c, Ours ours) {
  return static_cast<int>(c) == static_cast<int>(ours);
}
static_assert(IsSame(URNIC_EP_OK, Status::kOk) &&
              IsSame(URNIC_EP_BAD_LOCAL, Status::kBadLocal) &&
              IsSame(URNIC_EP_REFUSED, Status::kRefused) &&
              IsSame(URNIC_EP_WINDOW_FAILED, Status::kWindowFailed) &&
              IsSame(URNIC_EP_PEER_LOST, Status::kPeerLost) &&
              IsSame(URNIC_EP_CANCELED, Status::kCanceled) &&
              IsSame(URNIC_EP_INVALID, Status::kBadRequest));
static_assert(IsSame(URNIC_EP_DONE, upper::EventType::kDone) &&
              IsSame(URNIC_EP_MESSAGE, upper::EventType::kMessage));

struct Handle : urnic_ep {
  uint32_t job = 0;
  std::unique_ptr<Sleeper> sleeper;  // null: it has not slept yet
  std::vector<std::unique_ptr<WindowAdapter>> adapters;
  std::unique_ptr<upper::Endpoint> endpoint;
  // When the first operation began that will leave with the next flush or poll.
  // The clock is not read for each: that takes longer than an eighth of a
  // write.
  std::optional<Time> begin;
  // The upper layer's events, in urnic_ep_poll().
  std::array<upper::Event, 64> events;
};

Handle& Of(urnic_ep* endpoint) { return *static_cast<Handle*>(endpoint); }

Time TimeOfOperation(Handle& handle) {
  if (!handle.begin.has_value()) handle.begin = MonotonicNow();
  return *handle.begin;
}

int ErrnoOf(Status status) {
  switch (status) {
    case Status::kOk:
      return 0;
    case Status::kTryAgain:
      return EAGAIN;
    case Status::kTooLong:
      return EMSGSIZE;
    case Status::kPeerLost:
    case Status::kWindowFailed:
      return EHOSTUNREACH;
    default:
      return EINVAL;
  }
}

uint64_t DrawIncarnation() {
  uint64_t value = 0;
  while (value == 0) {
    if (getrandom(&value, sizeof(value), 0) != sizeof(value))
      value = static_cast<uint64_t>(MonotonicNow().ns());
  }
  return value;
}

upper::EndpointConfig ConfigOf(const urnic_ep_attr& attr) {
  upper::EndpointConfig config;
  const auto take = [](auto& to, uint32_t value) {
    if (value != 0) to = value;
  };
  take(config.operations, attr.operations);
  take(config.paths, attr.paths);
  take(config.lanes, attr.lanes);
  take(config.most_lanes, std::max(config.most_lanes, attr.lanes));
  if (attr.dead_after_ms != 0)
    config.dead_after = Duration::Milliseconds(attr.dead_after_ms);
  if (attr.lost_after_ms != 0)
    config.lost_after = Duration::Milliseconds(attr.lost_after_ms);
  return config;
}

bool IsValid(uint32_t count, const urnic_ep_attr& attr) {
  constexpr uint32_t kMostOperations = 1u << 20;
  constexpr uint32_t kMostLanes = 4096;
  // The upper layer keeps some entries free for retransmissions.
  const auto is_size = [](uint32_t entries) {
    return entries == 0 || entries >= URNIC_EP_LEAST_ENTRIES;
  };
  return attr.comp_mask == 0 && attr.job != 0 && count != 0 &&
         count <= upper::kMaxNics && attr.paths <= upper::kMaxPaths &&
         attr.operations <= kMostOperations && attr.lanes <= kMostLanes &&
         is_size(attr.send_entries) && is_size(attr.receive_entries);
}

urnic_ep* Open(const urnic_ep_nic* nics, uint32_t count,
               const urnic_ep_attr* attr) {
  if (!IsValid(count, *attr)) {
    errno = EINVAL;
    return nullptr;
  }
  constexpr uint32_t kSendEntries = 1024;
  constexpr uint32_t kReceiveEntries = 4096;
  urnic_dv_window_attr window = {};
  window.job = attr->job;
  window.send_entries =
      attr->send_entries != 0 ? attr->send_entries : kSendEntries;
  window.receive_entries =
      attr->receive_entries != 0 ? attr->receive_entries : kReceiveEntries;
  auto handle = std::make_unique<Handle>();
  handle->table = &urnic_ep_table_v1;
  handle->job = attr->job;
  std::vector<upper::Adapter*> adapters;
  for (const urnic_ep_nic& nic : std::span(nics, count)) {
    auto adapter = WindowAdapter::Open(nic.context, nic.gid_index, window);
    if (adapter == nullptr) return nullptr;
    adapters.push_back(adapter.get());
    handle->adapters.push_back(std::move(adapter));
  }
  handle->endpoint = std::make_unique<upper::Endpoint>(
      ConfigOf(*attr), adapters, DrawIncarnation());
  return handle.release();
}

int Close(urnic_ep* endpoint) {
  delete &Of(endpoint);
  return 0;
}

int Address(urnic_ep* endpoint, void* address, size_t* bytes) {
  const std::vector<uint8_t> made = Of(endpoint).endpoint->Address();
  const size_t room = std::exchange(*bytes, made.size());
  if (room < made.size()) return ENOSPC;
  std::memcpy(address, made.data(), made.size());
  return 0;
}

int AddPeer(urnic_ep* endpoint, const void* address, size_t bytes,
            uint32_t* peer) {
  const std::span blob(static_cast<const uint8_t*>(address), bytes);
  if (!upper::EndpointAddress::Decode(blob).has_value()) return EINVAL;
  Handle& handle = Of(endpoint);
  const uint32_t number = handle.endpoint->AddPeer(MonotonicNow(), blob);
  if (number == 0) return handle.adapters[0]->add_peer_error();
  *peer = number;
  return 0;
}

int RemovePeer(urnic_ep* endpoint, uint32_t peer) {
  upper::Endpoint& upper = *Of(endpoint).endpoint;
  if (upper.peer(peer) == nullptr) return EINVAL;
  upper.RemovePeer(MonotonicNow(), peer);
  return 0;
}

int Register(urnic_ep* endpoint, void* address, uint64_t bytes, unsigned access,
             uint64_t* pvo) {
  const Handle& handle = Of(endpoint);
  return urnic_dv_table_v1.register_memory(
      handle.adapters[0]->context(), handle.job, address, bytes, access, pvo);
}

int Deregister(urnic_ep* endpoint, uint64_t pvo) {
  const Handle& handle = Of(endpoint);
  return urnic_dv_table_v1.deregister(handle.adapters[0]->context(), handle.job,
                                      pvo);
}

int Write(urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
          uint64_t remote_pvo, uint64_t bytes, uint64_t user) {
  Handle& handle = Of(endpoint);
  return ErrnoOf(handle.endpoint->Write(TimeOfOperation(handle), peer,
                                        local_pvo, remote_pvo, bytes, user));
}

int Read(urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo,
         uint64_t remote_pvo, uint64_t bytes, uint64_t user) {
  Handle& handle = Of(endpoint);
  return ErrnoOf(handle.endpoint->Read(TimeOfOperation(handle), peer, local_pvo,
                                       remote_pvo, bytes, user));
}

int Send(urnic_ep* endpoint, uint32_t peer, uint64_t local_pvo, uint64_t bytes,
         uint64_t user) {
  Handle& handle = Of(endpoint);
  return ErrnoOf(handle.endpoint->Send(TimeOfOperation(handle), peer, local_pvo,
                                       bytes, user));
}

int WriteInline(urnic_ep* endpoint, uint32_t peer, const void* data,
                uint32_t bytes, uint64_t remote_pvo, uint64_t user) {
  Handle& handle = Of(endpoint);
  return ErrnoOf(handle.endpoint->WriteInline(
      TimeOfOperation(handle), peer, {static_cast<const uint8_t*>(data), bytes},
      remote_pvo, user));
}

int SendInline(urnic_ep* endpoint, uint32_t peer, const void* data,
               uint32_t bytes, uint64_t user) {
  Handle& handle = Of(endpoint);
  return ErrnoOf(handle.endpoint->SendInline(
      TimeOfOperation(handle), peer, {static_cast<const uint8_t*>(data), bytes},
      user));
}

int Flush(urnic_ep* endpoint) {
  Handle& handle = Of(endpoint);
  handle.begin.reset();
  handle.endpoint->Flush();
  return 0;
}

urnic_ep_event ToC(const upper::Event& event) {
  return {.type = static_cast<uint8_t>(event.type),
          .status = static_cast<uint8_t>(event.status),
          .reserved = 0,
          .peer = event.peer,
          .user = event.user,
          .bytes = event.bytes,
          .data = event.data};
}

uint32_t Poll(urnic_ep* endpoint, urnic_ep_event* events, uint32_t most) {
  Handle& handle = Of(endpoint);
  if (most == 0) return 0;
  handle.begin.reset();
  for (const auto& adapter : handle.adapters) adapter->Progress();
  const std::span room(handle.events.data(),
                       std::min<size_t>(most, handle.events.size()));
  const uint32_t count = handle.endpoint->Poll(MonotonicNow(), room);
  for (uint32_t i = 0; i < count; ++i) events[i] = ToC(room[i]);
  return count;
}

int Wait(urnic_ep* endpoint, int timeout_ms) {
  Handle& handle = Of(endpoint);
  if (handle.sleeper == nullptr) {
    handle.sleeper = Sleeper::Make(handle.adapters);
    if (handle.sleeper == nullptr) return errno;
  }
  handle.endpoint->Flush();
  handle.sleeper->BecomeReady();
  int result = 0;
  if (!handle.endpoint->HasEntries()) {
    const Time now = MonotonicNow();
    const Time end = timeout_ms < 0 ? Time::Infinite()
                                    : now + Duration::Milliseconds(timeout_ms);
    const Time due = handle.endpoint->next_deadline();
    const Time until = std::min(end, due);
    result = handle.sleeper->Sleep(until == Time::Infinite()
                                       ? Duration::Nanoseconds(-1)
                                       : std::max(until - now, Duration()));
    if (result == ETIMEDOUT && due <= end) result = 0;
  }
  handle.sleeper->BecomeBusy();
  return result;
}

int QueryPaths(urnic_ep* endpoint, uint32_t number, urnic_ep_path* paths,
               uint32_t* count) {
  const upper::Peer* const peer = Of(endpoint).endpoint->peer(number);
  if (peer == nullptr) return EINVAL;
  const uint32_t room = std::exchange(*count, 0);
  for (const upper::Pair& pair : peer->pairs) {
    for (const upper::Path& path : pair.paths) {
      const uint32_t place = (*count)++;
      if (place >= room) continue;
      const auto& trip = path.shared.round_trip;
      paths[place] = {
          .nic = pair.nic->number,
          .peer_nic = pair.peer_nic,
          .path = path.number,
          .is_dead = path.state == upper::PathState::kDead,
          .round_trip_ns =
              trip.known() ? static_cast<uint32_t>(trip.smoothed().ns()) : 0,
          .window = path.shared.cc.window(),
          .under_way = path.shared.under_way,
          .units = path.next_order - 1};
    }
  }
  return 0;
}

int QueryStats(urnic_ep* endpoint, urnic_ep_stats* stats) {
  const upper::UpperStats& now = Of(endpoint).endpoint->stats();
  *stats = {.units = now.units,
            .commands = now.commands,
            .shared = now.shared,
            .packets_again = now.packets_again,
            .time_outs = now.time_outs,
            .asked = now.asked,
            .early = now.early,
            .dead_paths = now.dead_paths,
            .moved = now.moved};
  return 0;
}

}  // namespace

extern "C" const urnic_ep_table urnic_ep_table_v1 = {
    .bytes = sizeof(urnic_ep_table),
    .open = Open,
    .close = Close,
    .address = Address,
    .add_peer = AddPeer,
    .remove_peer = RemovePeer,
    .register_memory = Register,
    .deregister = Deregister,
    .write = Write,
    .read = Read,
    .send = Send,
    .write_inline = WriteInline,
    .send_inline = SendInline,
    .flush = Flush,
    .poll = Poll,
    .query_paths = QueryPaths,
    .query_stats = QueryStats,
    .wait = Wait};

}  // namespace urnic::rud
