// Any list of operations on two managers that face each other: messages
// delivered in order, lost, duplicated, delayed, replayed, altered or made up,
// also with valid ids from the wrong address; calls with any handle and any
// argument; time. Invariants are checked after each operation. Connections move
// queue pairs, so an accepted message may change only one: the one that it
// names, from the address of its peer, and in a way that fits its type
// (Legitimate() below). Any other message changes none. In addition, a request
// may displace a half-open connection, which is of its own source if that is at
// its limit. When all handles are destroyed, nothing may be left.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/support/cm_sink.h"
#include "transport/base/check.h"

namespace urnic::cm {
namespace {

using testing::CmSink;
using testing::Input;
using testing::MadBytes;
using testing::SentMad;

constexpr int kOperationMax = 300;
constexpr size_t kInFlightMax = 64;
constexpr uint64_t kServiceId = 0x0000000001061c06;
constexpr int kStranger = 2;
constexpr size_t kHistoryMax = 128;

// May a message with this attribute change the state in this way?
bool Legitimate(uint16_t attribute, State from, State to) {
  using S = State;
  const bool asks = from == S::kReqSent || from == S::kMraReqReceived;
  const bool asked = from == S::kReqReceived || from == S::kMraReqSent;
  const bool replied = from == S::kRepSent || from == S::kMraRepReceived;
  const bool has_reply = from == S::kRepReceived || from == S::kMraRepSent;
  const bool ended = to == S::kTimewait || to == S::kIdle;
  // A new connection with the queue pair of an old one ends the old one.
  const bool stale = from == S::kEstablished && to == S::kDreqSent;
  switch (attribute) {
    case wire::kCmReqAttribute:
      return stale;
    case wire::kCmMraAttribute:
      return (from == S::kReqSent && to == S::kMraReqReceived) ||
             (from == S::kRepSent && to == S::kMraRepReceived);
    case wire::kCmRejAttribute:
      return ((asks || asked || replied) && ended) ||
             ((has_reply || from == S::kEstablished || from == S::kDreqSent) &&
              to == S::kTimewait);
    case wire::kCmRepAttribute:
      return (asks && (to == S::kRepReceived || to == S::kIdle)) || stale;
    case wire::kCmRtuAttribute:
      return replied && to == S::kEstablished;
    case wire::kCmDreqAttribute:
      return (replied || from == S::kEstablished || from == S::kDreqSent) &&
             to == S::kDreqReceived;
    case wire::kCmDrepAttribute:
      return (from == S::kDreqSent || from == S::kDreqReceived) &&
             to == S::kTimewait;
    case wire::kCmSidrRepAttribute:
      return from == S::kSidrReqSent && to == S::kIdle;
    default:
      return false;
  }
}

wire::Gid GidOf(int i) { return wire::Gid::FromIpv4(0x0a000001 + i); }

class Fuzzer {
 public:
  explicit Fuzzer(Input input) : in_(input) {
    for (int i = 0; i < 2; ++i) {
      Config config;
      config.ca_guid = 0xca00 + i;
      config.first_communication_id = 0x5000u * (1 + i);
      config.max_connections = 4 + in_.Below(12);
      config.max_half_open_per_source = per_source_[i] = 1 + in_.Below(4);
      config.max_half_open_per_listener = 1 + in_.Below(8);
      config.ack_delay_code = static_cast<uint8_t>(in_.Below(32));
      managers_[i].emplace(config);
    }
  }

  void Run() {
    for (int n = 0; n < kOperationMax && !in_.empty(); ++n) {
      Operate(static_cast<int>(in_.Below(2)));
      for (int i = 0; i < 2; ++i) {
        managers_[i]->CheckInvariants();
        for (const auto& seen : sinks_[i].events) {
          // What an event names exists, also a new handle.
          URNIC_CHECK(managers_[i]->Exists(seen.event.handle));
        }
        sinks_[i].events.clear();
        while (sinks_[i].mads.size() > kInFlightMax) sinks_[i].mads.pop_front();
      }
    }
    End();
  }

 private:
  void Operate(int i) {
    switch (in_.Below(13)) {
      case 0:
      case 1:
      case 2:
        return Deliver(i, false);
      case 3:
        return Deliver(i, true);
      case 4:
        return MakeUp(i);
      case 5:
        return FromStranger(i);
      case 6:
        now_ = now_ + Duration::Nanoseconds(in_.Word());
        return Tick(i);
      case 7:
        if (const Time next = managers_[i]->NextDeadline();
            !next.IsInfinite()) {
          now_ = std::max(now_, next);
        }
        return Tick(i);
      case 8:
        return Open(i);
      case 9:
        return Replay(i);
      default:
        return Call(i);
    }
  }

  // A held request whose service has a listener again becomes a connection.
  void Tick(int i) {
    managers_[i]->OnTimer(now_, sinks_[i]);
    for (const auto& seen : sinks_[i].events) {
      if (seen.event.kind != EventKind::kReqReceived) continue;
      for (const int peer : {0, 1, kStranger}) {
        if (seen.from.remote == GidOf(peer)) {
          Remember(i, seen.event.handle, peer);
        }
      }
    }
  }

  net::PathQuery PathFrom(int from) {
    net::PathQuery path;
    path.remote = GidOf(from);
    return path;
  }
  // What is known of each handle.
  struct Known {
    Handle handle;
    int peer = kStranger;  // where its messages come from
  };
  struct Before {
    State state;
    uint32_t ours;
    uint32_t theirs;
    Qpn qpn;
  };
  Before Now(int i, Handle h) {
    const ConnectionManager& m = *managers_[i];
    QpAttributes qp;
    (void)m.GetQpAttributes(h, qp);
    return {m.state(h), m.local_comm_id(h), m.remote_comm_id(h), qp.local_qpn};
  }

  void Give(int i, const MadBytes& bytes, int from) {
    std::vector<Before> before;
    for (const Known& k : handles_[i]) before.push_back(Now(i, k.handle));
    const size_t seen = sinks_[i].events.size();
    const RxVerdict verdict =
        managers_[i]->OnMad(bytes, PathFrom(from), now_, sinks_[i]);
    uint32_t half_open = 0;  // of this source
    for (size_t n = 0; n < before.size(); ++n) {
      half_open += IsHalfOpen(before[n].state) && handles_[i][n].peer == from;
    }
    int changed = 0;
    int displaced = 0;
    for (size_t n = 0; n < before.size(); ++n) {
      const State after = managers_[i]->state(handles_[i][n].handle);
      if (after == before[n].state) continue;
      if (IsDisplaced(before[n].state, after, bytes)) {
        ++displaced;
        URNIC_CHECK(half_open < per_source_[i] || handles_[i][n].peer == from);
        URNIC_CHECK(verdict == RxVerdict::kAccept ||
                    verdict == RxVerdict::kCmNoRoom);
        continue;
      }
      ++changed;
      CheckChange(handles_[i][n], before[n], after, bytes, from, verdict);
    }
    URNIC_CHECK(displaced <= 1);
    for (size_t n = seen; n < sinks_[i].events.size(); ++n) {
      const Event& event = sinks_[i].events[n].event;
      if (event.kind == EventKind::kReqReceived ||
          event.kind == EventKind::kSidrReqReceived) {
        ++changed;
        URNIC_CHECK(verdict == RxVerdict::kAccept);
        Remember(i, event.handle, from);
      }
    }
    // A stale reply ends the new request and the old connection.
    URNIC_CHECK(changed <= (verdict == RxVerdict::kCmStale ? 2 : 1));
  }
  static bool IsDisplaced(State from, State to, const MadBytes& bytes) {
    wire::MadHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const uint16_t attribute = header.attribute_id.value();
    return (attribute == wire::kCmReqAttribute ||
            attribute == wire::kCmSidrReqAttribute) &&
           IsHalfOpen(from) && to == State::kIdle;
  }
  static void CheckChange(const Known& known, const Before& before, State after,
                          const MadBytes& bytes, int from, RxVerdict verdict) {
    wire::CmLap ids;  // at the same place in all but REQ and SIDR
    std::memcpy(&ids, bytes.data(), sizeof(ids));
    wire::CmDreq dreq;
    std::memcpy(&dreq, bytes.data(), sizeof(dreq));
    const uint16_t attribute = ids.mad.attribute_id.value();
    const bool stale = verdict == RxVerdict::kCmStale;
    URNIC_CHECK(verdict == RxVerdict::kAccept || stale);
    URNIC_CHECK(known.peer == from);
    URNIC_CHECK(Legitimate(attribute, before.state, after));
    if (stale || attribute == wire::kCmSidrRepAttribute) return;
    const bool by_ours = ids.remote_comm_id.value() == before.ours;
    const bool by_theirs =
        before.theirs != 0 && ids.local_comm_id.value() == before.theirs;
    // A peer that gives up its request may not know our id.
    URNIC_CHECK(by_ours || (attribute == wire::kCmRejAttribute && by_theirs));
    URNIC_CHECK(by_theirs || before.state == State::kReqSent ||
                before.state == State::kMraReqReceived);
    if (attribute == wire::kCmDreqAttribute) {
      URNIC_CHECK(dreq.remote_qpn() == before.qpn);
    }
  }
  // The oldest message for node `i`, possibly altered.
  void Deliver(int i, bool keep) {
    auto& queue = sinks_[1 - i].mads;
    if (queue.empty()) return;
    SentMad mad = queue.front();
    queue.pop_front();
    if (keep) queue.push_back(mad);
    if (history_[1 - i].size() < kHistoryMax) {
      history_[1 - i].push_back(mad.bytes);
    }
    if (in_.Below(4) == 0) Alter(mad.bytes);
    Give(i, mad.bytes, 1 - i);
  }
  void Alter(MadBytes& bytes) {
    const uint32_t changes = in_.Below(4);
    for (uint32_t n = 0; n < changes; ++n) bytes[in_.Byte()] = in_.Byte();
  }
  // A communication id that exists, or one that does not.
  uint32_t CommId(int i) {
    const uint32_t id = managers_[i]->local_comm_id(AnyHandle(i));
    return in_.Below(4) == 0 ? in_.Word() : id;
  }
  MadBytes AnyMad(int i) {
    wire::CmLap mad;
    mad.mad.base_version = wire::kMadBaseVersion;
    mad.mad.management_class = wire::kMadClassCm;
    mad.mad.class_version = wire::kCmClassVersion;
    mad.mad.method = wire::kMadMethodSend;
    mad.mad.attribute_id = wire::Be<uint16_t>(
        static_cast<uint16_t>(wire::kCmReqAttribute + in_.Below(12)));
    mad.local_comm_id = wire::Be<uint32_t>(CommId(1 - i));
    mad.remote_comm_id = wire::Be<uint32_t>(CommId(i));
    const uint32_t bytes = in_.Byte() % sizeof(mad.rest);
    for (uint32_t n = 0; n < bytes; ++n) mad.rest[n] = in_.Byte();
    MadBytes out;
    std::memcpy(out.data(), &mad, sizeof(mad));
    Alter(out);
    return out;
  }
  void MakeUp(int i) { Give(i, AnyMad(i), 1 - i); }
  // From an address that is not a peer's: a copy of a real message, or a
  // made-up one.
  void FromStranger(int i) {
    const auto& queue = sinks_[1 - i].mads;
    const MadBytes bytes =
        !queue.empty() && in_.Below(2) == 0 ? queue.front().bytes : AnyMad(i);
    Give(i, bytes, kStranger);
  }
  // A message that was delivered before, from its sender or from a stranger.
  void Replay(int i) {
    const auto& history = history_[1 - i];
    if (history.empty()) return;
    MadBytes bytes = history[in_.Byte() % history.size()];
    if (in_.Below(4) == 0) Alter(bytes);
    Give(i, bytes, in_.Below(4) == 0 ? kStranger : 1 - i);
  }

  void Remember(int i, Handle handle, int peer) {
    handles_[i].push_back({handle, peer});
  }
  Handle AnyHandle(int i) {
    const auto& all = handles_[i];
    const uint32_t n = in_.Byte();
    if (all.empty() || n == 255) return Handle{in_.Word()};
    return all[n % all.size()].handle;
  }

  std::span<const uint8_t> Data() {
    static constexpr uint8_t kData[256] = {1, 2, 3};
    return {kData, in_.Byte()};
  }
  void Open(int i) {
    Handle handle;
    net::PathQuery to = PathFrom(1 - i);
    switch (in_.Below(4)) {
      case 0: {
        const uint64_t mask = in_.Below(2) == 0 ? 0 : 0xffffffffff000000;
        (void)managers_[i]->Listen(kServiceId + in_.Below(2), mask, 1, handle);
        break;
      }
      case 1: {
        SidrRequestParams params;
        params.service_id = kServiceId;
        params.mad_path = to;
        params.response_timeout_code = in_.Byte();
        params.max_cm_retries = in_.Byte();
        params.private_data = Data();
        (void)managers_[i]->SidrRequest(params, 2, now_, sinks_[i], handle);
        break;
      }
      default: {
        ConnectParams params;
        params.service_id = kServiceId + in_.Below(2);
        params.mad_path = to;
        params.service = static_cast<Service>(in_.Below(4));
        params.qpn = Qpn{in_.Below(8)};
        params.packet_life_time_code = in_.Byte();
        params.remote_response_timeout_code = in_.Byte();
        params.local_response_timeout_code = in_.Byte();
        params.max_cm_retries = in_.Byte();
        params.private_data = Data();
        (void)managers_[i]->Connect(params, 3, now_, sinks_[i], handle);
      }
    }
    if (handle.valid()) Remember(i, handle, 1 - i);
  }
  void Call(int i) {
    ConnectionManager& m = *managers_[i];
    CmSink& sink = sinks_[i];
    const Handle h = AnyHandle(i);
    switch (in_.Below(12)) {
      case 0:
      case 1: {
        AcceptParams params;
        params.qpn = Qpn{in_.Below(8)};
        params.private_data = Data();
        return (void)m.Accept(h, params, now_, sink);
      }
      case 2: {
        RejectParams params;
        params.ari = Data();
        return (void)m.Reject(h, params, now_, sink);
      }
      case 3:
        return (void)m.EstablishByTraffic(h, sink);
      case 4:
      case 5:
        return (void)m.SendRtu(h, Data(), sink);
      case 6:
      case 7:
        return (void)m.PrepareMra(h, in_.Byte());
      case 8:
        return (void)m.Disconnect(h, Data(), now_, sink);
      case 9:
        return (void)m.SendDrep(h, Data(), now_, sink);
      case 10: {
        SidrReplyParams params;
        params.info = Data();
        return (void)m.SidrReply(h, params, sink);
      }
      default:
        return (void)m.Destroy(h, now_, sink);
    }
  }

  void End() {
    for (int i = 0; i < 2; ++i) {
      ConnectionManager& m = *managers_[i];
      for (const Known& known : handles_[i]) {
        (void)m.Destroy(known.handle, now_, sinks_[i]);
      }
      while (!m.NextDeadline().IsInfinite()) {
        now_ = std::max(now_, m.NextDeadline());
        m.OnTimer(now_, sinks_[i]);
        sinks_[i].mads.clear();
        URNIC_CHECK(sinks_[i].events.empty());
      }
      m.CheckInvariants();
      URNIC_CHECK(m.in_use() == 0);
    }
  }

  Input in_;
  Time now_ = Time::FromNs(1);
  std::optional<ConnectionManager> managers_[2];
  CmSink sinks_[2];
  std::vector<Known> handles_[2];
  uint32_t per_source_[2] = {};
  std::vector<MadBytes> history_[2];  // delivered messages of each
};

}  // namespace
}  // namespace urnic::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const urnic::cm::Input input(data, size);
  std::make_unique<urnic::cm::Fuzzer>(input)->Run();
  return 0;
}
