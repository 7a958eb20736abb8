#include "tests/tcp/our_end.h"

#include <cstring>

#include "transport/wire/appender.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"

namespace urnic::testing {
namespace {

constexpr NumberKey kKey = {{0x0123456789abcdef, 0xfedcba9876543210}};
constexpr uint32_t kChallengesPerSecond = 1000;
constexpr size_t kSlots = 4096;

}  // namespace

void WriteLink(std::span<uint8_t> frame) {
  const wire::Ethernet header{{}, {}, wire::Be<uint16_t>(wire::kEtherTypeIpv4)};
  std::memcpy(frame.data(), &header, sizeof(header));
}

ReceivedFrame CopyKeeper::Copy(std::span<const uint8_t> frame) {
  while (slots_.size() < kSlots) slots_.push_back(std::make_unique<Slot>());
  do {
    next_ = (next_ + 1) % kSlots;
  } while (slots_[next_]->kept);
  Slot& slot = *slots_[next_];
  slot.bytes.assign(frame.begin(), frame.end());
  return {slot.bytes, &slot};
}

uint32_t CopyKeeper::Keep(const ReceivedFrame& frame, FrameHolder& holder) {
  if (holder.kept == holder.limit) return kRefused;
  URNIC_CHECK(frame.buffer == slots_[next_].get());
  ++holder.kept;
  slots_[next_]->kept = true;
  return static_cast<uint32_t>(next_);
}

void CopyKeeper::Release(uint32_t number, FrameHolder& holder) {
  URNIC_CHECK(slots_[number]->kept);
  slots_[number]->kept = false;
  --holder.kept;
}

OurEnd::OurEnd(const Config& config, Time now)
    : config_(config),
      outgoing_(config.seed + 1),
      incoming_(config.seed),
      challenges_(kKey, kChallengesPerSecond),
      // With room for one, the table is half full from the beginning.
      half_open_(kKey, config.cookies ? 1 : 16, &challenges_),
      connection_(&segments_, &ranges_, &keeper_, &challenges_),
      frame_(kFrameBytes),
      verdicts_(kRxVerdictCount) {
  if (config.remote_port == 0) return;
  tcp::ConnectionConfig tcp = TcpConfig(config.remote_port);
  Random random(config.seed);
  tcp.iss = SeqNum(static_cast<uint32_t>(random.Next()));
  tcp.timestamp_offset = static_cast<uint32_t>(random.Next());
  connection_.Connect(tcp, now);
}

tcp::ConnectionConfig OurEnd::TcpConfig(uint16_t remote_port) const {
  tcp::ConnectionConfig tcp;
  tcp.local_port = kOurPort;
  tcp.remote_port = remote_port;
  tcp.offer.mss = static_cast<uint16_t>(config_.mtu - sizeof(wire::Ipv4) -
                                        sizeof(wire::Tcp));
  tcp.offer.ecn = true;
  tcp.window_bytes = config_.window;
  return tcp;
}

bool OurEnd::Listen(const wire::TcpSegment& segment, Time now) {
  const tcp::FourTuple tuple = {wire::Gid::FromIpv4(config_.local),
                                wire::Gid::FromIpv4(config_.remote), kOurPort,
                                segment.src_port};
  tcp::ConnectionConfig tcp = TcpConfig(segment.src_port);
  if (segment.Has(wire::kTcpSyn)) {
    answers_.push_back(
        half_open_.OnSyn(tuple, segment, tcp.offer, config_.window, now));
    return false;
  }
  const auto outcome = half_open_.OnSegment(tuple, segment, now);
  if (outcome.answer) answers_.push_back(*outcome.answer);
  const auto& accepted = outcome.accepted;
  if (!accepted) return false;
  tcp.iss = accepted->iss;
  tcp.timestamp_offset = accepted->timestamp_offset;
  connection_.Accept(tcp, accepted->handshake, now);
  return true;
}

void OurEnd::OnFrame(std::span<const uint8_t> bytes, Time now) {
  const ReceivedFrame frame = keeper_.Copy(bytes);
  wire::FrameView view;
  RxVerdict verdict =
      wire::ParseFrame(frame.bytes.data(), frame.bytes.size(), view);
  wire::TcpSegment segment;
  if (verdict == RxVerdict::kTcp) {
    verdict = wire::ParseTcp(view, /*checksum_verified=*/false, segment);
  }
  const bool listens = connection_.state() == tcp::State::kClosed &&
                       connection_.ended() == tcp::End::kNone;
  if (verdict == RxVerdict::kAccept && (!listens || Listen(segment, now))) {
    verdict = connection_.OnSegment(segment, frame, now, *this);
    connection_.ReleaseDelivered();
  }
  ++verdicts_[static_cast<size_t>(verdict)];
}

tcp::Chunk OurEnd::NextChunk(uint32_t max_bytes) {
  const uint64_t left = config_.send - cut_;
  const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(left, max_bytes));
  const tcp::Chunk chunk = {cut_, bytes};
  cut_ += bytes;
  if (bytes != 0) under_way_.push_back(chunk);
  return chunk;
}

void OurEnd::OnChunkAcked(uint64_t source) {
  const tcp::Chunk chunk = under_way_.front();
  under_way_.pop_front();
  wrong_ |= chunk.source != source;
  acked_ = chunk.source + chunk.bytes;
}

uint32_t OurEnd::OnBytes(SeqNum, std::span<const uint8_t> bytes,
                         const ReceivedFrame&) {
  wrong_ |= !incoming_.Check(received_, bytes);
  received_ += bytes.size();
  return static_cast<uint32_t>(bytes.size());
}

std::span<uint8_t> OurEnd::Build(const tcp::TcpSlot& slot) {
  const std::span<uint8_t> frame = frame_;
  WriteLink(frame);
  const uint32_t header_bytes = wire::TcpHeaderBytes(slot.fields.options);
  uint8_t* const tcp = &frame[kLinkBytes + sizeof(wire::Ipv4)];
  wire::WriteTcpHeader(slot.fields, tcp);
  const std::span<uint8_t> payload(tcp + header_bytes, slot.bytes);
  outgoing_.Make(slot.source + slot.offset, payload);
  const wire::Be<uint16_t> checksum(wire::TcpChecksum(
      wire::Gid::FromIpv4(config_.local), wire::Gid::FromIpv4(config_.remote),
      {tcp, header_bytes}, payload));
  std::memcpy(tcp + offsetof(wire::Tcp, checksum), &checksum, sizeof(checksum));
  wire::Ipv4 ip;
  const size_t ip_bytes = sizeof(ip) + header_bytes + slot.bytes;
  ip.total_length = wire::Be<uint16_t>(static_cast<uint16_t>(ip_bytes));
  ip.identification = wire::Be<uint16_t>(identification_++);
  ip.flags_fragment = wire::Be<uint16_t>(wire::Ipv4::kDontFragment);
  ip.ttl = 64;
  ip.tos = slot.ect ? 2 : 0;
  ip.protocol = wire::kIpProtocolTcp;
  ip.src = wire::Be<uint32_t>(config_.local);
  ip.dst = wire::Be<uint32_t>(config_.remote);
  ip.checksum = wire::Be<uint16_t>(
      wire::Checksum({reinterpret_cast<const uint8_t*>(&ip), sizeof(ip)}));
  std::memcpy(&frame[kLinkBytes], &ip, sizeof(ip));
  return frame.first(kLinkBytes + ip_bytes);
}

bool OurEnd::done() const {
  return connection_.ended() != tcp::End::kNone ||
         (connection_.state() == tcp::State::kTimeWait && !has_work());
}

bool OurEnd::ok() const {
  return !wrong_ && received_ == config_.receive && acked_ == config_.send &&
         (connection_.ended() == tcp::End::kClosed ||
          connection_.state() == tcp::State::kTimeWait);
}

std::string OurEnd::Report() const {
  const auto& counters = connection_.sender().counters();
  std::string text =
      "sent " + std::to_string(acked_) + ", received " +
      std::to_string(received_) + (wrong_ ? " with WRONG BYTES" : "") +
      ", resent " + std::to_string(counters.retransmissions) + " (" +
      std::to_string(counters.recoveries) + " recoveries, " +
      std::to_string(counters.timeouts) + " time-outs, " +
      std::to_string(counters.tail_probes) + " tail probes, " +
      std::to_string(counters.undone) + " undone), end " +
      std::to_string(static_cast<int>(connection_.ended())) + ", state " +
      std::to_string(static_cast<int>(connection_.state()));
  for (size_t i = 0; i < verdicts_.size(); ++i) {
    if (verdicts_[i] == 0) continue;
    text += std::string(", ") + kRxVerdictNames[i] + " " +
            std::to_string(verdicts_[i]);
  }
  return text;
}

}  // namespace urnic::testing
