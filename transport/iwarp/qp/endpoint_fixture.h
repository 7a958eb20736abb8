#pragma once

// For tests: two ends with their programs, a listener, and a wire between them
// in virtual time. Each resent byte is compared with its first transmission.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/bad_wire.h"
#include "tests/support/fragments.h"
#include "transport/iwarp/qp/copy_keeper.h"
#include "transport/iwarp/qp/endpoint.h"
#include "transport/iwarp/qp/image.h"
#include "transport/iwarp/rdmap/rdmap_end.h"
#include "transport/iwarp/tcp/half_open.h"

namespace urnic::iwarp {

using rdmap::testing::Bytes;
using rdmap::testing::RdmapEnd;
using rdmap::testing::SendWr;
using urnic::testing::Random;

inline constexpr NumberKey kTestKey = {
    {0x1111222233334444, 0x5555666677778888}};

inline Bytes FromText(std::string_view text) {
  return {text.begin(), text.end()};
}

// A segment under way.
struct Packet {
  wire::TcpFields fields;
  Bytes payload;
};

class TestEnd {
 public:
  TestEnd(uint32_t qpn, uint16_t local_port, uint16_t remote_port)
      : program({.qpn = qpn, .started = false, .iova = uint64_t{1} << 40}) {
    tcp_config.local_port = local_port;
    tcp_config.remote_port = remote_port;
    tcp_config.iss = SeqNum(0xffffff00u + local_port);  // wraps soon
    tcp_config.timestamp_offset = 0xfffffff0u;
    setup.ird = setup.ord = 8;
    config.immediate = rdmap::ImmediateData::kNone;
    Renew();
  }
  void Renew() {
    RenewEndpoint();
    stream_.clear();
  }

  // Whether the endpoint is that of a connection, perhaps an ended one.
  bool begun() const {
    return endpoint->connection().state() != tcp::State::kClosed ||
           endpoint->connection().ended() != tcp::End::kNone;
  }
  // The time of the endpoint, whose clock a move may change.
  Time Local(Time now) const { return now + ahead_; }
  Time deadline() const {
    const Time due = endpoint->deadline();
    return due.IsInfinite() ? due : due - ahead_;
  }
  // REQUIRES: begun()
  Bytes Image(Time now) const {
    Bytes image(ExtractImage(*endpoint, tuple(), Local(now), {}));
    URNIC_CHECK(ExtractImage(*endpoint, tuple(), Local(now), image) ==
                image.size());
    return image;
  }
  // Another endpoint and queue pair continue from the image, with a clock that
  // is `ahead` of the wire's. After a refusal, only Renew() is allowed.
  ImageRefusal Become(const Bytes& image, Time now, Duration ahead) {
    std::optional<ImageShape> shape;
    RenewEndpoint();
    const ImageRefusal refusal = ReadImageShape(image, shape);
    if (!refusal.ok()) return refusal;
    if (shape.has_value()) program.Renew();
    ahead_ = ahead;
    const Destination destination = {
        .tuple = tuple(),
        .frames = &frames,
        .qp = shape.has_value() ? &program.qp() : nullptr,
        .answers = program.answers()};
    return InsertImage(image, Local(now), destination, *endpoint);
  }

  tcp::FourTuple tuple() const {
    return {.local = wire::Gid::FromIpv4(0x0a000000u + tcp_config.local_port),
            .remote = wire::Gid::FromIpv4(0x0a000000u + tcp_config.remote_port),
            .local_port = tcp_config.local_port,
            .remote_port = tcp_config.remote_port};
  }

  Attachment attachment() { return {&program.qp(), config}; }
  void Connect(Time now) {
    endpoint->Connect(tcp_config, setup, attachment(), private_data,
                      Local(now));
  }
  void Open(const tcp::HalfOpenTable::Accepted& accepted, Time now) {
    tcp_config.iss = accepted.iss;
    tcp_config.timestamp_offset = accepted.timestamp_offset;
    endpoint->Open(tcp_config, accepted.handshake, setup, Local(now));
  }

  RxVerdict Deliver(const Packet& packet, Time now) {
    const auto verdict =
        frames.Give(packet.payload, [&](const ReceivedFrame& frame) {
          wire::TcpSegment segment;
          static_cast<wire::TcpFields&>(segment) = packet.fields;
          segment.payload = frame.bytes;
          const RxVerdict got =
              endpoint->OnSegment(segment, frame, Local(now), program);
          Finish(now);
          return got;
        });
    return verdict;
  }
  std::vector<Packet> Transmit(Time now) {
    std::vector<Packet> packets;
    tcp::TcpSlot slots[4];
    posted = false;
    uint32_t count = 0;
    uint32_t calls = 0;
    do {
      URNIC_CHECK(++calls < 10000);
      count = endpoint->Transmit(Local(now), slots);
      for (const tcp::TcpSlot& slot : std::span(slots).first(count)) {
        Packet packet{slot.fields, Bytes(slot.bytes)};
        if (!endpoint->WritePayload(
                slot, packet.payload,
                [this](uint64_t address, std::span<uint8_t> to) {
                  return program.ReadMemory(address, to);
                })) {
          continue;
        }
        CheckStream(packet);
        packets.push_back(std::move(packet));
      }
      Finish(now);
    } while (count != 0 || endpoint->has_work());
    return packets;
  }
  void OnTimer(Time now) {
    endpoint->OnTimer(Local(now));
    Finish(now);
  }
  // Executes and completes, and takes the events, as their program does.
  void Finish(Time now) {
    const FlowResult result = program.Finish(*endpoint);
    URNIC_CHECK(result.deadline == endpoint->deadline());
    answered |= result.answered;
    timed_out |= result.timed_out;
    Event event;
    while ((event = endpoint->TakeEvent()) != Event::kNone) {
      events.push_back(event);
      if (event == Event::kRequest || event == Event::kRejected ||
          (event == Event::kConnected && endpoint->set_up().initiates())) {
        const auto data = endpoint->private_data();
        peer_private_data = Bytes(data.begin(), data.end());
      }
      if (event == Event::kRequest && accepts) {
        (void)endpoint->Accept(attachment(), private_data, Local(now));
      }
    }
  }
  bool Post(const SendWr& wr) {
    posted = true;
    return program.Send(wr);
  }
  bool has(Event event) const {
    return std::ranges::find(events, event) != events.end();
  }
  // Nothing of the connection is left.
  bool clean() const {
    return endpoint->done() && frames.kept() == 0 && fpdus.kept() == 0 &&
           early.free_count() == kEarly;
  }

  tcp::ConnectionConfig tcp_config;
  mpa::SetupOptions setup;
  rdmap::Config config = rdmap::testing::kDefaultConfig;
  Bytes private_data;
  bool accepts = true;  // each request
  // The program does not change the memory of requests in flight.
  bool stable = true;
  bool checks_stream = true;  // what it sends fits together
  bool posted = false;        // since the last Transmit()
  bool answered = false;
  bool timed_out = false;
  std::vector<Event> events;
  Bytes peer_private_data;
  urnic::testing::HostFrames frames;
  CopyKeeper fpdus{64};
  static constexpr uint32_t kEarly = 8;
  EarlyPool early{kEarly};
  bool place_early = true;  // counts from Renew()
  RdmapEnd program;

 private:
  void RenewEndpoint() {
    endpoint.reset();
    endpoint.emplace(EndpointPools{.segments = &segments_,
                                   .ranges = &ranges_,
                                   .challenges = &challenges_,
                                   .frames = &frames,
                                   .pieces = &pieces_,
                                   .fpdus = &fpdus,
                                   .early = place_early ? &early : nullptr},
                     records_);
  }
  void CheckStream(const Packet& packet) {
    if (!checks_stream) return;
    const auto at =
        static_cast<uint32_t>(packet.fields.seq - (tcp_config.iss + 1));
    for (size_t i = 0; i < packet.payload.size(); ++i) {
      if (at + i < stream_.size()) {
        URNIC_CHECK(!stable || stream_[at + i] == packet.payload[i]);
      } else {
        URNIC_CHECK(stream_.size() == at + i);
        stream_.push_back(packet.payload[i]);
      }
    }
  }

  Bytes stream_;
  Duration ahead_;
  tcp::SegmentSlab segments_{256};
  tcp::RangePool ranges_{2048};
  tcp::ChallengeBudget challenges_{kTestKey, 1000};
  mpa::HeldPieces pieces_{256};
  KeptFpdu records_[16];

 public:
  std::optional<Endpoint> endpoint;
};

// Changes a packet; false: it is lost.
using Tamper = std::function<bool(Packet&)>;

// `a` connects to `b`.
class Link {
 public:
  explicit Link(uint64_t seed = 1) : random(seed) {}

  // Starts to connect, and runs until both ends have the event kConnected.
  [[nodiscard]] bool Connect() {
    a.Connect(now);
    return RunUntil([this] {
      return a.has(Event::kConnected) && b.has(Event::kConnected);
    });
  }
  // Runs until `condition` is true. False: it never was, for `limit` at most.
  bool RunUntil(const std::function<bool()>& condition,
                Duration limit = Duration::Seconds(600)) {
    const Time end = now + limit;
    while (!condition()) {
      if (!Step(end)) return condition();
    }
    return true;
  }
  void Run(Duration limit = Duration::Seconds(600)) {
    (void)RunUntil([] { return false; }, limit);
  }
  // Advances to the next event. False: there is none before `end`.
  bool Step(Time end) {
    Send(a, to_b_, tamper_to_b);
    Send(b, to_a_, tamper_to_a);
    const Time next = std::min({to_a_.next(), to_b_.next(), a.deadline(),
                                b.deadline(), listener_.NextDeadline()});
    if (next > end) {
      if (!end.IsInfinite()) now = end;
      return false;
    }
    if (next.IsInfinite()) return false;
    now = std::max(now, next);
    while (auto repeat = listener_.OnTimer(now)) {
      Put({repeat->fields, {}}, to_a_);
    }
    Receive(b, to_b_, to_a_);
    Receive(a, to_a_, to_b_);
    for (TestEnd* side : {&a, &b}) {
      if (now < side->deadline()) continue;
      side->OnTimer(now);
      between(*side);
    }
    return true;
  }

  Time now = Time::FromNs(1'000'000'000'000);
  Random random;
  testing::WireFaults faults;
  bool listening = true;
  // Called after each action of an end.
  std::function<void(TestEnd&)> between = [](TestEnd&) {};
  Tamper tamper_to_a = [](Packet&) { return true; };
  Tamper tamper_to_b = [](Packet&) { return true; };
  TestEnd a{0x11, 1, 2};
  TestEnd b{0x22, 2, 1};
  std::map<RxVerdict, uint64_t> verdicts;

 private:
  using Line = testing::BadWire<Packet>;

  void Send(TestEnd& from, Line& line, const Tamper& tamper) {
    while (from.posted || from.endpoint->has_work()) {
      for (Packet& packet : from.Transmit(now)) {
        if (tamper(packet)) Put(packet, line);
      }
    }
    between(from);
  }
  void Put(const Packet& packet, Line& line) {
    line.Put(packet, faults, now, random);
  }
  void Receive(TestEnd& to, Line& line, Line& back) {
    while (line.next() <= now) {
      const Packet packet = line.Take();
      if (&to == &b &&
          to.endpoint->connection().state() == tcp::State::kClosed &&
          to.endpoint->connection().ended() == tcp::End::kNone) {
        Listen(packet, back);
        continue;
      }
      const RxVerdict verdict = to.Deliver(packet, now);
      ++verdicts[verdict];
      between(to);
      if (verdict == RxVerdict::kTcp) Refuse(packet, back);
    }
  }
  // A segment for a port without a connection.
  void Refuse(const Packet& packet, Line& back) {
    wire::TcpSegment segment;
    static_cast<wire::TcpFields&>(segment) = packet.fields;
    segment.payload = packet.payload;
    if (const auto reset = tcp::ResetFor(segment)) Put({*reset, {}}, back);
  }
  void Listen(const Packet& packet, Line& back) {
    if (!listening) return Refuse(packet, back);
    const tcp::FourTuple tuple = {{}, {}, 2, 1};
    wire::TcpSegment segment;
    static_cast<wire::TcpFields&>(segment) = packet.fields;
    segment.payload = packet.payload;
    if (segment.Has(wire::kTcpSyn)) {
      Put({listener_.OnSyn(tuple, segment, b.tcp_config.offer,
                           b.tcp_config.window_bytes, now),
           {}},
          back);
      return;
    }
    const auto accepted = listener_.OnSegment(tuple, segment, now).accepted;
    if (!accepted) return;
    b.Open(*accepted, now);
    ++verdicts[b.Deliver(packet, now)];
  }

  Line to_a_;
  Line to_b_;
  tcp::ChallengeBudget challenges_{kTestKey, 1000};
  tcp::HalfOpenTable listener_{kTestKey, 8, &challenges_};
};

}  // namespace urnic::iwarp
