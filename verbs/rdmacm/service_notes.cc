// Reports refused calls and failed connections to `urnic show error` and the
// logs.

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "ras/errors/refusal.h"
#include "transport/wire/address_text.h"
#include "transport/wire/cm_messages.h"
#include "verbs/control/debug_log.h"
#include "verbs/control/untold.h"
#include "verbs/rdmacm/id_facts.h"
#include "verbs/rdmacm/service.h"
#include "verbs/rdmacm/tcp_connections.h"

namespace urnic::rdmacm {

namespace {

// The text for an errno. Without a text, it depends on the id's state, or is
// the system's.
struct Words {
  int error;
  const char* name;
  ErrorCode code;
  const char* text;
};
constexpr Words kWords[] = {
    {EINVAL, "EINVAL", ErrorCode::kCmCallRefused, ""},
    {EADDRINUSE, "EADDRINUSE", ErrorCode::kTcpPortTaken,
     "another id or listener has the port"},
    {EADDRNOTAVAIL, "EADDRNOTAVAIL", ErrorCode::kNotLocal,
     "no device of this program has the address"},
    {ENETUNREACH, "ENETUNREACH", ErrorCode::kNoRoute,
     "no device of this program has a route there"},
    {ETIMEDOUT, "ETIMEDOUT", ErrorCode::kNoAnswer,
     "the destination does not answer"},
    {EAFNOSUPPORT, "EAFNOSUPPORT", ErrorCode::kBadAddress,
     "the address family is unknown"},
    {EFAULT, "EFAULT", ErrorCode::kNotMapped,
     "memory of the call is not mapped, or not writable"},
    {ENOSYS, "ENOSYS", ErrorCode::kNotBuilt, "there is no such call or option"},
    {EOPNOTSUPP, "EOPNOTSUPP", ErrorCode::kNotBuilt,
     "no device has the port space of the id"},
    {ENOMEM, "ENOMEM", ErrorCode::kNoPlace,
     "all ids, groups, connections or neighbours are in use"},
    {ENOENT, "ENOENT", ErrorCode::kObjectEnded,
     "there is no such id, group or descriptor"},
    {ENODEV, "ENODEV", ErrorCode::kCmCallRefused,
     "no device that can be used has this address"},
    {ENOSPC, "ENOSPC", ErrorCode::kCmCallRefused,
     "there is too little room for the answer"},
    {ECONNRESET, "ECONNRESET", ErrorCode::kConnectionOver,
     "the connection has ended meanwhile"},
};

Words WordsOfErrno(int error) {
  for (const Words& words : kWords) {
    if (words.error == error) return words;
  }
  return {error, "", ErrorCode::kCmCallRefused, ""};
}

std::string TextOf(int error) { return std::generic_category().message(error); }

std::string TextOf(const SocketAddress& address) {
  if (!address.is_ip()) {
    return absl::StrCat("an address of family ", address.family());
  }
  return wire::SocketText(address.gid(), address.port());
}

// "cm_id 5 (LISTEN, 10.0.0.1:7174)": the number of `urnic show cm_id`.
std::string TextOf(const Id& id) {
  std::string text =
      absl::StrCat("cm_id ", id.serial, " (", StateName(id.state));
  if (id.source.is_ip()) absl::StrAppend(&text, ", ", TextOf(id.source));
  return text + ")";
}

// Why a command with this id, or without one, is refused.
std::string ReasonOf(int error, const Id* id, const EventChannel& channel) {
  if (error != EINVAL) return TextOf(error);
  if (id == nullptr) return "an argument is wrong";
  if (id->channel != &channel) return "the id belongs to another event channel";
  return absl::StrCat(
      "an argument is wrong, or the call is not allowed in the state ",
      StateName(id->state), id->port == nullptr ? " or without a device" : "");
}

// --- Events that say that a connection could not be made.

const char* NameOf(EventType type) {
  switch (type) {
    case EventType::kAddrError:
      return "ADDR_ERROR";
    case EventType::kConnectError:
      return "CONNECT_ERROR";
    case EventType::kUnreachable:
      return "UNREACHABLE";
    case EventType::kRejected:
      return "REJECTED";
    default:
      return nullptr;
  }
}

// `status`: that of the event; an errno if negative, else that of the peer's
// message.
ErrorCode CodeOf(EventType type, int status) {
  switch (type) {
    case EventType::kAddrError:
      if (status == -ETIMEDOUT) return ErrorCode::kNoAnswer;
      if (status == -ENETUNREACH) return ErrorCode::kNoRoute;
      if (status == -ENODEV) return ErrorCode::kNotLocal;
      if (status == -ENOMEM) return ErrorCode::kTooManyNeighbors;
      return ErrorCode::kConnectionNotMade;
    case EventType::kRejected:
      return ErrorCode::kConnectionRejected;
    case EventType::kUnreachable:
      // The answer to a request for datagrams has a status of its own.
      return status > 0 ? ErrorCode::kConnectionRejected
                        : ErrorCode::kConnectionUnanswered;
    default:
      return ErrorCode::kConnectionNotMade;
  }
}

std::string ReasonOf(EventType type, int status, const Id& id) {
  if (status < 0) {
    if (type == EventType::kRejected && status == -ECONNREFUSED) {
      return "nobody listens there, or the peer's program has refused";
    }
    if (type == EventType::kAddrError && status == -EINVAL && id.is_datagram())
      return "the peer's Q_Key is not that of the id";
    return TextOf(-status);
  }
  if (type == EventType::kUnreachable) {
    return status == wire::kSidrUnsupported
               ? "nobody listens there"
               : "nobody listens there, or the peer's program has refused";
  }
  switch (status) {
    case wire::kRejInvalidServiceId:
      return "nobody listens there";
    case wire::kRejConsumerDefined:
      return "the peer's program has refused";
    case wire::kRejStaleConnection:
      return "one of the queue pairs is still connected at the other side";
    case wire::kRejTimeout:
      return "the peer has waited too long for an answer";
    default:
      return "the peer's connection manager has refused";
  }
}

// The reason why a call on a TCP connection has just failed; OK: unknown.
absl::Status RefusalOf(CmPort& port, int error) {
  TcpConnections* const tcp = port.rnic().tcp();
  return tcp != nullptr ? tcp->TakeRefusal(error) : absl::OkStatus();
}

}  // namespace

void Service::NoteRefusal(const EventChannel& channel, const RefusedCall& call,
                          int error) {
  if (abandoned_.load()) return;
  Words words = WordsOfErrno(error);
  // As in Linux it also means that another id has the port at all addresses.
  if (error == EADDRNOTAVAIL &&
      (call.address.family() == 0 || call.address.is_any() ||
       FindLocal(call.address) != nullptr)) {
    const Words taken = WordsOfErrno(EADDRINUSE);
    words.code = taken.code;
    words.text = taken.text;
  }
  Notice notice;
  notice.code = words.code;
  notice.text = call.name;
  std::string reason = words.text;
  CmPort* own = nullptr;  // the id's
  {
    std::lock_guard lock(mutex_);
    const IdPtr id = call.id.has_value() ? ids_.Find(*call.id) : nullptr;
    if (id != nullptr) {
      own = id->port;
      notice.qpn = id->qpn;
      absl::StrAppend(&notice.text, ": ", TextOf(*id));
    } else if (call.id.has_value()) {
      absl::StrAppend(&notice.text, ": id ", *call.id);
    }
    if (reason.empty()) reason = ReasonOf(error, id.get(), channel);
  }
  if (call.address.family() != 0) {
    absl::StrAppend(&notice.text, ": ", TextOf(call.address));
  }
  // The device has reported the reason.
  for (const auto& port : ports_) {
    if (!port->is_open() || port->rnic().tcp() == nullptr) continue;
    if (own != nullptr && own != port.get()) continue;
    absl::Status why;
    port->TryCall([&] {
      why = RefusalOf(*port, error);
      return 0;
    });
    const auto code = urnic::CodeOf(why);
    if (!code.has_value()) continue;
    notice.code = *code;
    reason = WithoutCode(why);
    own = port.get();
    break;
  }
  absl::StrAppend(&notice.text, ": ", reason);
  if (words.name[0] != '\0') {
    absl::StrAppend(&notice.text, " (", words.name, ")");
  }
  if (own != nullptr && own->rnic().NoteRefusal(notice)) return;
  for (const auto& port : ports_) {
    if (port->rnic().NoteRefusal(notice)) return;
  }
  control::DebugLog(absl::StrCat(ErrorName(notice.code), ": ", notice.text));
  control::KeepUntold(notice.code, notice.text);
}

void Service::QueueFromPort(CmPort& port, const IdPtr& id,
                            const rdma_ucm_event_resp& response) {
  id->channel->Push({.owner = id,
                     .request = nullptr,
                     .multicast = nullptr,
                     .response = response});
  const auto type = static_cast<EventType>(response.event);
  const char* const name = NameOf(type);
  if (name == nullptr) return;
  const auto status = static_cast<int>(response.status);
  Notice notice;
  notice.code = CodeOf(type, status);
  notice.qpn = id->qpn;
  if (id->destination.is_ip()) {
    notice.has_peer = true;
    notice.remote = id->destination.gid();
    notice.remote_port = id->destination.port();
  }
  std::string reason = ReasonOf(type, status, *id);
  const absl::Status why = RefusalOf(port, -status);
  if (const auto code = urnic::CodeOf(why); code.has_value()) {
    notice.code = *code;
    reason = WithoutCode(why);
  }
  notice.text = absl::StrCat(TextOf(*id), " to ", TextOf(id->destination), ": ",
                             name, " ", status, ": ", reason);
  port.rnic().NoteFailure(notice);
}

}  // namespace urnic::rdmacm
