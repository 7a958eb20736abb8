#include "transport/wire/pretty.h"

#include <bit>

#include "transport/wire/address_text.h"
#include "transport/wire/frame.h"
#include "transport/wire/icrc.h"
#include "transport/wire/neighbor.h"
#include "transport/wire/pretty_text.h"

namespace urnic::wire {
namespace {

std::string SyndromeText(uint8_t syndrome) {
  const std::string value = std::to_string(syndrome & kAethValueMask);
  if ((syndrome & 0x80) != 0) return "reserved syndrome " + Hex(syndrome);
  switch (syndrome & kAethTypeMask) {
    case kAethAck:
      return "ack credits " + value;
    case kAethRnrNak:
      return "rnr timer " + value;
    case kAethNak:
      break;
    default:
      return "reserved syndrome " + Hex(syndrome);
  }
  switch (syndrome) {
    case kNakPsnSequenceError:
      return "nak sequence";
    case kNakInvalidRequest:
      return "nak invalid-request";
    case kNakRemoteAccessError:
      return "nak remote-access";
    case kNakRemoteOperationalError:
      return "nak remote-operational";
    default:
      return "nak reserved code " + value;
  }
}

void AddBth(std::string& line, const Bth& bth) {
  AddField(line, "qp", Hex(bth.dest_qp().value));
  AddField(line, "psn", std::to_string(bth.psn().value()));
  if (bth.ack_requested()) line += " ackreq";
  if (bth.solicited()) line += " solicited";
  if (!bth.mig_req()) line += " nomig";
  if (bth.fecn()) line += " fecn";
  if (bth.becn()) line += " becn";
  if (bth.repair() != 0) {
    line += " repair " + std::to_string(bth.repair());
  }
  if (bth.pkey.value() != 0xffff) AddField(line, "pkey", Hex(bth.pkey.value()));
}

void AddExtendedHeaders(std::string& line, const RocePacket& packet) {
  const OpcodeInfo& info = *packet.info;
  if (info.has_xrceth) AddField(line, "srqn", Hex(packet.xrceth().srqn()));
  if (info.has_deth) {
    AddField(line, "qkey", Hex(packet.deth().qkey.value()));
    AddField(line, "srcqp", Hex(packet.deth().src_qp().value));
  }
  if (info.has_feth) AddField(line, "flush", Hex(packet.feth().value.value()));
  if (info.has_reth) {
    const Reth& reth = packet.reth();
    AddField(line, "va", Hex(reth.virtual_address.value()));
    AddField(line, "rkey", Hex(reth.rkey.value()));
    AddField(line, "dmalen", std::to_string(reth.dma_length.value()));
  }
  if (info.has_aeth) {
    line.append(" ").append(SyndromeText(packet.aeth().syndrome()));
    AddField(line, "msn", std::to_string(packet.aeth().msn()));
  }
  if (info.has_atomic_eth) {
    const AtomicEth& atomic = packet.atomic_eth();
    const bool add = packet.bth->opcode == uint8_t(Opcode::kRcFetchAdd);
    AddField(line, "va", Hex(atomic.virtual_address.value()));
    AddField(line, "rkey", Hex(atomic.rkey.value()));
    AddField(line, add ? "add" : "swap", Hex(atomic.swap_or_add.value()));
    if (!add) AddField(line, "compare", Hex(atomic.compare.value()));
  }
  if (info.has_atomic_ack_eth) {
    AddField(line, "original",
             Hex(packet.atomic_ack_eth().original_value.value()));
  }
  if (info.has_imm) {
    const auto imm = std::bit_cast<Be<uint32_t>>(packet.imm());
    AddField(line, "imm", Hex(imm.value()));
  }
  if (info.has_ieth) AddField(line, "inv", Hex(packet.ieth().rkey.value()));
}

std::string PrettyVerdict(RxVerdict verdict) {
  return std::string("drop ") + kRxVerdictNames[static_cast<size_t>(verdict)];
}

std::string PrettyNeighbor(const char* protocol, const NeighborInfo& info,
                           const FrameView& frame) {
  std::string line = protocol;
  switch (info.kind) {
    case NeighborKind::kSolicit:
      if (info.has_owner) line += " " + IpText(info.owner);
      return line + " asks for " + IpText(info.asked);
    case NeighborKind::kAdvertise:
      if (!info.has_owner) return line + " says nothing";
      return line + " " + IpText(info.owner) + " is at " +
             MacText(info.owner_mac);
    case NeighborKind::kEchoRequest:
      return line + " " + IpText(frame.src) + " pings " + IpText(frame.dst);
    case NeighborKind::kOther:
      break;
  }
  return line + " " + IpText(frame.src) + " > " + IpText(frame.dst) + " type " +
         std::to_string(frame.payload[0]);
}

std::string PrettyTcp(const FrameView& frame) {
  TcpSegment segment;
  const RxVerdict verdict =
      ParseTcp(frame, /*checksum_verified=*/true, segment);
  if (verdict != RxVerdict::kAccept) return PrettyVerdict(verdict);
  std::string line = Pretty(segment);
  if (segment.congestion_experienced) line += " ce";
  if (TcpChecksum(frame.src, frame.dst, frame.payload_span(), {}) != 0) {
    line += " bad checksum";
  }
  return line;
}

}  // namespace

std::string Pretty(const RocePacket& packet) {
  std::string line = ServiceName(packet.info->service);
  if (packet.info->kind != PacketKind::kCnp) {
    line.append(" ").append(packet.info->token);
  }
  AddBth(line, *packet.bth);
  AddExtendedHeaders(line, packet);
  if (packet.info->has_payload) {
    AddField(line, "len", std::to_string(packet.payload_bytes));
  }
  return line;
}

std::string PrettyFrame(std::span<const uint8_t> bytes) {
  FrameView frame;
  NeighborInfo info;
  RxVerdict verdict = ParseFrame(bytes.data(), bytes.size(), frame);
  if (verdict == RxVerdict::kArp) {
    verdict = ParseArp(frame, info);
    if (verdict == RxVerdict::kArp) return PrettyNeighbor("arp", info, frame);
  }
  if (verdict == RxVerdict::kIcmp) {
    verdict = ParseIcmp(frame, info);
    if (verdict == RxVerdict::kIcmp) {
      return PrettyNeighbor(frame.ipv6() ? "icmp6" : "icmp", info, frame);
    }
  }
  if (verdict != RxVerdict::kAccept && verdict != RxVerdict::kTcp) {
    return PrettyVerdict(verdict);
  }
  std::string line = IpText(frame.src) + " > " + IpText(frame.dst) + " ";
  if (verdict == RxVerdict::kTcp) return line + PrettyTcp(frame);
  RocePacket packet;
  verdict = ParseRoce(frame.payload, frame.payload_bytes, packet);
  if (verdict != RxVerdict::kAccept) return line + PrettyVerdict(verdict);
  line += Pretty(packet);
  if (frame.framing == Framing::kGrh) line += " roce-v1";
  if (frame.congestion_experienced()) line += " ce";
  if (!VerifyIcrc(frame.l3, frame.framing, frame.payload_bytes)) {
    line += " bad icrc";
  }
  return line;
}

}  // namespace urnic::wire
