#include "tests/interop/peer_connections.h"

#include <netdb.h>
#include <poll.h>

#include <cerrno>
#include <memory>
#include <string_view>

namespace urnic::interop {

namespace {

constexpr int kBacklog = 16;
constexpr int kResolveMs = 5000;
constexpr double kResolveSeconds = 10;

using Address = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Address AddressOf(const Words& words) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(words.Text("address").c_str(),
                                words.Text("port").c_str(), &hints, &found);
  if (error != 0) throw Refused(gai_strerror(error));
  return {found, &freeaddrinfo};
}

// Private data are written as hexadecimal digits.
std::vector<uint8_t> DataOf(const Words& words) {
  const std::string text = words.TextOr("data", "");
  std::vector<uint8_t> data;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    data.push_back(
        static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return data;
}

std::string HexOf(const void* data, size_t count) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t byte = static_cast<const uint8_t*>(data)[i];
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

rdma_conn_param ParametersOf(const Words& words,
                             const std::vector<uint8_t>& data) {
  rdma_conn_param parameters = {};
  parameters.private_data = data.data();
  parameters.private_data_len = static_cast<uint8_t>(data.size());
  parameters.responder_resources =
      static_cast<uint8_t>(words.Number("reads", 4));
  parameters.initiator_depth = static_cast<uint8_t>(words.Number("depth", 4));
  parameters.retry_count = parameters.rnr_retry_count = 7;
  return parameters;
}

// librdmacm has taken the id of an event from the program's id or listener;
// the context of each id is its name.
const std::string& NameOf(const rdma_cm_id* id) {
  return *static_cast<const std::string*>(id->context);
}

}  // namespace

rdma_cm_id* Connections::id(const std::string& name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) throw Refused("no id is named " + name);
  return found->second;
}

rdma_cm_id* Connections::AddId(const std::string& name) {
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) Refuse("rdma_create_event_channel", errno);
  channels_.push_back(channel);
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(channel, &made, nullptr, RDMA_PS_TCP) != 0)
    Refuse("rdma_create_id", errno);
  const auto place = ids_.insert_or_assign(name, made).first;
  made->context = const_cast<std::string*>(&place->first);
  return made;
}

void Connections::Listen(const Words& words) {
  rdma_cm_id* made = AddId(words.Text("name"));
  if (rdma_bind_addr(made, AddressOf(words)->ai_addr) != 0)
    Refuse("rdma_bind_addr", errno);
  if (rdma_listen(made, kBacklog) != 0) Refuse("rdma_listen", errno);
}

void Connections::Resolve(const Words& words) {
  rdma_cm_id* made = AddId(words.Text("name"));
  if (rdma_resolve_addr(made, nullptr, AddressOf(words)->ai_addr, kResolveMs) !=
      0) {
    Refuse("rdma_resolve_addr", errno);
  }
  Expect(made, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(made, kResolveMs) != 0)
    Refuse("rdma_resolve_route", errno);
  Expect(made, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void Connections::Connect(const Words& words) {
  const std::vector<uint8_t> data = DataOf(words);
  rdma_conn_param parameters = ParametersOf(words, data);
  if (rdma_connect(id(words.Text("id")), &parameters) != 0)
    Refuse("rdma_connect", errno);
}

void Connections::Accept(const Words& words) {
  const std::vector<uint8_t> data = DataOf(words);
  rdma_conn_param parameters = ParametersOf(words, data);
  if (rdma_accept(id(words.Text("id")), &parameters) != 0)
    Refuse("rdma_accept", errno);
}

void Connections::Reject(const Words& words) {
  const std::vector<uint8_t> data = DataOf(words);
  if (rdma_reject(id(words.Text("id")), data.data(),
                  static_cast<uint8_t>(data.size())) != 0) {
    Refuse("rdma_reject", errno);
  }
}

void Connections::Disconnect(const Words& words) {
  if (rdma_disconnect(id(words.Text("id"))) != 0)
    Refuse("rdma_disconnect", errno);
}

bool Connections::Await(rdma_event_channel* channel, double seconds) {
  pollfd readable = {channel->fd, POLLIN, 0};
  const int ready = poll(&readable, 1, static_cast<int>(1000 * seconds));
  if (ready < 0) Refuse("poll", errno);
  return ready == 1;
}

void Connections::Expect(rdma_cm_id* id, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  if (!Await(id->channel, kResolveSeconds))
    throw Refused(std::string("no ") + rdma_event_str(wanted));
  if (rdma_get_cm_event(id->channel, &event) != 0)
    Refuse("rdma_get_cm_event", errno);
  const rdma_cm_event_type type = event->event;
  const int status = event->status;
  rdma_ack_cm_event(event);
  if (type != wanted) Refuse(rdma_event_str(type), -status);
}

std::string Connections::NextEvent(const Words& words) {
  rdma_event_channel* channel = id(words.Text("id"))->channel;
  if (!Await(channel, std::stod(words.TextOr("seconds", "30"))))
    return "event=none";
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0)
    Refuse("rdma_get_cm_event", errno);
  const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  std::string answer = std::string("event=") + rdma_event_str(event->event) +
                       " status=" + std::to_string(event->status) +
                       " id=" + NameOf(request ? event->listen_id : event->id);
  if (request || event->event == RDMA_CM_EVENT_ESTABLISHED ||
      event->event == RDMA_CM_EVENT_REJECTED) {
    const rdma_conn_param& got = event->param.conn;
    answer += " data=" + HexOf(got.private_data, got.private_data_len) +
              " reads=" + std::to_string(got.responder_resources) +
              " depth=" + std::to_string(got.initiator_depth);
  }
  if (request) {
    const auto place = ids_.insert_or_assign(words.Text("as"), event->id).first;
    event->id->context = const_cast<std::string*>(&place->first);
  }
  rdma_ack_cm_event(event);
  return answer;
}

void Connections::Destroy(const std::string& name) {
  if (rdma_destroy_id(id(name)) != 0) Refuse("rdma_destroy_id", errno);
  ids_.erase(name);
}

void Connections::Close() {
  while (!ids_.empty()) Destroy(ids_.begin()->first);
  for (rdma_event_channel* channel : channels_)
    rdma_destroy_event_channel(channel);
  channels_.clear();
}

}  // namespace urnic::interop
