#include "transport/cm/image.h"

#include <cstring>

#include "transport/cm/image_fields.h"
#include "transport/cm/messages.h"

namespace urnic {
namespace {

using cm::Connection;
using cm::State;

// Sets of messages.
constexpr uint16_t Bit(uint16_t attribute) {
  return static_cast<uint16_t>(1 << (attribute - wire::kCmReqAttribute));
}
constexpr uint16_t kNothing = 1 << 15;  // has been sent
constexpr uint16_t kReq = Bit(wire::kCmReqAttribute);
constexpr uint16_t kMra = Bit(wire::kCmMraAttribute);
constexpr uint16_t kRej = Bit(wire::kCmRejAttribute);
constexpr uint16_t kRep = Bit(wire::kCmRepAttribute);
constexpr uint16_t kRtu = Bit(wire::kCmRtuAttribute);
constexpr uint16_t kDreq = Bit(wire::kCmDreqAttribute);
constexpr uint16_t kDrep = Bit(wire::kCmDrepAttribute);
constexpr uint16_t kSidrReq = Bit(wire::kCmSidrReqAttribute);
constexpr uint16_t kAnyOfConnections =
    kNothing | kReq | kMra | kRej | kRep | kRtu | kDreq | kDrep;

constexpr uint8_t kActive = 1;
constexpr uint8_t kPassive = 2;
constexpr uint8_t kEither = kActive | kPassive;

// The properties of a connection in a state.
struct StateRule {
  State state;
  uint8_t side;
  uint16_t sent;      // the last message is one of these
  bool repeats;       // it is being repeated
  bool knows_peer;    // the peer's communication id is known
  bool knows_nobody;  // and here it is not
};
constexpr StateRule kRules[] = {
    {State::kIdle, kEither, kAnyOfConnections | kSidrReq, false, false, false},
    {State::kListen, 0, 0, false, false, false},
    {State::kReqSent, kActive, kReq, true, false, true},
    {State::kReqReceived, kPassive, kNothing, false, true, false},
    {State::kMraReqSent, kPassive, kMra, false, true, false},
    {State::kMraReqReceived, kActive, kReq, true, false, true},
    {State::kRepSent, kPassive, kRep, true, true, false},
    {State::kRepReceived, kActive, kReq, false, true, false},
    {State::kMraRepSent, kActive, kMra, false, true, false},
    {State::kMraRepReceived, kPassive, kRep, true, true, false},
    {State::kEstablished, kEither, kRtu | kRep, false, true, false},
    {State::kDreqSent, kEither, kDreq, true, true, false},
    {State::kDreqReceived, kEither, kRtu | kRep | kDreq, false, true, false},
    {State::kTimewait, kEither, kAnyOfConnections, false, false, false},
    {State::kSidrReqSent, kActive, kSidrReq, true, false, true},
    {State::kSidrReqReceived, kPassive, kNothing, false, false, false},
};
constexpr const StateRule& RuleOf(State state) {
  return kRules[static_cast<size_t>(state)];
}
constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kRules); ++i) {
    if (kRules[i].state != static_cast<State>(i)) return false;
  }
  return kRules[std::size(kRules) - 1].state == State::kSidrReqReceived;
}
static_assert(InOrder());

constexpr bool IsResolution(State state) {
  return state == State::kSidrReqSent || state == State::kSidrReqReceived;
}

// The message has the recorded type, and names this connection.
void CheckMessage(ImageReader& f, const Connection& c, const StateRule& rule) {
  const uint16_t attribute = c.sent_attribute;
  const bool known = attribute == 0 || (attribute >= wire::kCmReqAttribute &&
                                        attribute <= wire::kCmSidrReqAttribute);
  const uint16_t bit = attribute == 0 ? kNothing : known ? Bit(attribute) : 0;
  f.Require((rule.sent & bit) != 0, "sent_attribute", attribute,
            "is not the last message sent before this state");
  if (attribute == 0) return;
  wire::CmRtu sent;  // the beginning of all of them
  static_assert(sizeof(sent) == sizeof(c.sent));
  std::memcpy(&sent, c.sent, sizeof(sent));
  f.Require(sent.mad.base_version == wire::kMadBaseVersion &&
                sent.mad.management_class == wire::kMadClassCm &&
                sent.mad.class_version == wire::kCmClassVersion &&
                sent.mad.method == wire::kMadMethodSend &&
                sent.mad.attribute_id.value() == attribute,
            "sent_attribute", attribute, "is not of the message");
  const uint32_t names = sent.local_comm_id.value();
  f.Require(!rule.repeats || names == c.local_comm_id, "local_comm_id",
            c.local_comm_id, "is not that of the message");
}

void CheckTimes(ImageReader& f, const Connection& c, const StateRule& rule) {
  const bool ends = c.state == State::kTimewait;
  f.Require(c.ack_timeout_code < 32, "ack_timeout_code", c.ack_timeout_code,
            "has more than 5 bits");
  f.Require(c.max_cm_retries < 16, "max_cm_retries", c.max_cm_retries,
            "has more than 4 bits");
  f.Require(c.deadline.IsInfinite() != (rule.repeats || ends), "deadline",
            c.deadline.IsInfinite(), "does not fit the state");
  // The time to answer, and the round trip.
  const Duration longest = cm::CodeTime(31) * 3;
  f.Require(c.timeout <= longest, "timeout",
            static_cast<uint64_t>(c.timeout.ns()),
            "is not a valid message time");
  f.Require(c.repeat_after <= longest, "repeat_after",
            static_cast<uint64_t>(c.repeat_after.ns()),
            "is not a valid message time");
  if (!f.ok() || c.deadline.IsInfinite()) return;
  const Duration left = c.deadline - f.now();
  const Duration most =
      ends ? cm::CodeTime(c.ack_timeout_code) : c.repeat_after;
  f.Require(left <= most, "deadline", static_cast<uint64_t>(left.ns()),
            "is later than its timeout allows");
  // HurryDisconnects() allows any number of repetitions of a DREQ.
  const bool counted = rule.repeats && c.state != State::kDreqSent;
  f.Require(!counted || c.retries_left + c.retries_withheld <= c.max_cm_retries,
            "retries_left", c.retries_left, "is more than max_cm_retries");
}

void CheckRanges(ImageReader& f, const Connection& c) {
  f.Require(c.service == cm::Service::kRc || c.service == cm::Service::kUc ||
                c.service == cm::Service::kXrc,
            "service", static_cast<uint64_t>(c.service), "is unknown");
  f.Require(c.local_comm_id != 0, "local_comm_id", 0, "must not be 0");
  f.Require(c.packet_rate < 64, "packet_rate", c.packet_rate,
            "has more than 6 bits");
  f.Require(c.mtu_code < 16, "mtu_code", c.mtu_code, "has more than 4 bits");
  f.Require(c.retry_count < 8, "retry_count", c.retry_count,
            "has more than 3 bits");
  f.Require(c.rnr_retry_count < 8, "rnr_retry_count", c.rnr_retry_count,
            "has more than 3 bits");
}

}  // namespace

void FieldsOf<Connection>::Check(ImageReader& f, const Connection& c) {
  const StateRule& rule = RuleOf(c.state);
  const auto state = static_cast<uint64_t>(c.state);
  f.Require(rule.side != 0, "state", state, "is a listener's");
  f.Require((rule.side & (c.passive ? kPassive : kActive)) != 0, "passive",
            c.passive, "does not fit the state");
  f.Require(
      !c.orphan || c.state == State::kDreqSent || c.state == State::kTimewait,
      "orphan", c.orphan, "does not fit the state");
  const bool knows_peer =
      rule.knows_peer || (c.state == State::kTimewait && c.passive);
  f.Require((c.remote_comm_id != 0 || !knows_peer) &&
                (c.remote_comm_id == 0 || !rule.knows_nobody),
            "remote_comm_id", c.remote_comm_id, "does not fit the state");
  // A passive side has a queue pair from its REP on; a resolution has none.
  const bool decided = !c.passive || rule.repeats ||
                       c.state == State::kEstablished ||
                       c.state == State::kDreqReceived;
  const bool open =
      cm::IsOver(c.state) || (c.passive && c.state == State::kTimewait);
  f.Require(open || c.has_local_qpn == (decided && !IsResolution(c.state)),
            "has_local_qpn", c.has_local_qpn, "does not fit the state");
  CheckRanges(f, c);
  CheckMessage(f, c, rule);
  CheckTimes(f, c, rule);
}

namespace cm {

namespace {

ImageReader Read(std::span<const uint8_t> image, Time now,
                 MovedConnection& out) {
  ImageReader reader(image, now);
  reader.Require(reader.kind() == ImageKind::kConnection, "kind",
                 static_cast<uint64_t>(reader.kind()), "is not a connection's");
  reader.Element("", out);
  reader.Finish();
  if (!reader.ok()) return reader;
  FieldsOf<Connection>::Check(reader, out.connection);
  reader.Require(!out.displaced || out.connection.state == State::kIdle,
                 "displaced", out.displaced, "does not fit the state");
  return reader;
}

// The refusal for an error of Adopt().
ImageRefusal RefusalOf(int error, const MovedConnection& moved) {
  const Connection& c = moved.connection;
  switch (error) {
    case 0:
      return {};
    case EXDEV:
      return {"", "ca_guid", moved.ca_guid, "belongs to another CA"};
    case EEXIST:
      return {"", "local_comm_id", c.local_comm_id,
              "is in use by a connection here"};
    case EADDRINUSE:
      if (c.state == State::kSidrReqReceived) {
        return {"", "remote_comm_id", c.remote_comm_id,
                "is in use by a request here"};
      }
      return {"", "remote_qpn", c.remote_qpn.value,
              "is in use by a connection here"};
    case EACCES:
      return {"", "local_comm_id", c.local_comm_id, "is not leased to us"};
    default:
      return {"", "local_comm_id", c.local_comm_id,
              "would be one more than max_connections"};
  }
}

}  // namespace

size_t ExtractImage(const ConnectionManager& from, uint32_t local_comm_id,
                    Time now, std::span<uint8_t> out) {
  MovedConnection moved;
  if (!from.Copy(local_comm_id, moved)) return 0;
  ImageWriter writer(ImageKind::kConnection, now, out);
  writer.Element("", moved);
  return writer.Finish();
}

ImageRefusal InsertImage(std::span<const uint8_t> image, Time now,
                         ConnectionManager& to, Handle& out) {
  MovedConnection moved;
  const ImageReader reader = Read(image, now, moved);
  if (!reader.ok()) return reader.refusal();
  return RefusalOf(to.Adopt(moved, out), moved);
}

ImageRefusal ReadImage(std::span<const uint8_t> image, Time now,
                       MovedConnection& out) {
  return Read(image, now, out).refusal();
}

const char* NameOf(State state) {
  static_assert(std::size(kStateNames) == std::size(kRules));
  return kStateNames[static_cast<size_t>(state)];
}

void ShowState(const MovedConnection& moved, Time now, std::string& out) {
  ImagePrinter(now, out).Element("moved", moved);
}

}  // namespace cm
}  // namespace urnic
