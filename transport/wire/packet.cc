#include "transport/wire/packet.h"

#include <cstring>

#include "transport/wire/appender.h"
#include "transport/wire/icrc.h"

namespace urnic::wire {
namespace {

Bth MakeBth(const PacketFields& f, uint32_t pad) {
  Bth bth;
  bth.opcode = f.opcode;
  bth.flags = Bth::MakeFlags(f.solicited, f.mig_req, pad);
  bth.pkey = Be<uint16_t>(f.pkey);
  bth.fecn_becn_qpn = Bth::MakeQpn(f.fecn, f.becn, f.dest_qp);
  bth.SetRepair(f.repair);
  bth.ack_psn = Bth::MakeAckPsn(f.ack_requested, f.psn);
  return bth;
}

void AppendExtendedHeaders(const PacketFields& f, const OpcodeInfo& info,
                           Appender& out) {
  if (info.has_xrceth) out.Append(XrcEth{Be<uint32_t>(f.srqn)});
  if (info.has_deth) {
    out.Append(Deth{Be<uint32_t>(f.qkey), Be<uint32_t>(f.src_qp.value)});
  }
  if (info.has_feth) out.Append(Feth{Be<uint32_t>(f.flush)});
  if (info.has_reth) {
    out.Append(Reth{Be<uint64_t>(f.virtual_address), Be<uint32_t>(f.rkey),
                    Be<uint32_t>(f.dma_length)});
  }
  if (info.has_aeth) out.Append(Aeth::Make(f.syndrome, f.msn));
  if (info.has_atomic_eth) {
    out.Append(AtomicEth{Be<uint64_t>(f.virtual_address), Be<uint32_t>(f.rkey),
                         Be<uint64_t>(f.swap_or_add), Be<uint64_t>(f.compare)});
  }
  if (info.has_atomic_ack_eth) {
    out.Append(AtomicAckEth{Be<uint64_t>(f.original_value)});
  }
  if (info.has_imm) out.Append(f.imm);
  if (info.has_ieth) out.Append(Ieth{Be<uint32_t>(f.rkey)});
}

}  // namespace

PacketFields FieldsOf(const RocePacket& packet) {
  const Bth& bth = *packet.bth;
  const OpcodeInfo& info = *packet.info;
  PacketFields f;
  f.opcode = bth.opcode;
  f.solicited = bth.solicited();
  f.mig_req = bth.mig_req();
  f.fecn = bth.fecn();
  f.becn = bth.becn();
  f.repair = static_cast<uint8_t>(bth.repair());
  f.ack_requested = bth.ack_requested();
  f.pkey = bth.pkey.value();
  f.dest_qp = bth.dest_qp();
  f.psn = bth.psn();
  if (info.has_xrceth) f.srqn = packet.xrceth().srqn();
  if (info.has_deth) {
    f.qkey = packet.deth().qkey.value();
    f.src_qp = packet.deth().src_qp();
  }
  if (info.has_feth) f.flush = packet.feth().value.value();
  if (info.has_reth) {
    const Reth& reth = packet.reth();
    f.virtual_address = reth.virtual_address.value();
    f.rkey = reth.rkey.value();
    f.dma_length = reth.dma_length.value();
  }
  if (info.has_aeth) {
    f.syndrome = packet.aeth().syndrome();
    f.msn = packet.aeth().msn();
  }
  if (info.has_atomic_eth) {
    const AtomicEth& atomic = packet.atomic_eth();
    f.virtual_address = atomic.virtual_address.value();
    f.rkey = atomic.rkey.value();
    f.swap_or_add = atomic.swap_or_add.value();
    f.compare = atomic.compare.value();
  }
  if (info.has_atomic_ack_eth) {
    f.original_value = packet.atomic_ack_eth().original_value.value();
  }
  if (info.has_imm) f.imm = packet.imm();
  if (info.has_ieth) f.rkey = packet.ieth().rkey.value();
  f.payload = {packet.payload, packet.payload_bytes};
  return f;
}

size_t EmitRoce(const PacketFields& fields, std::span<uint8_t> out) {
  const OpcodeInfo& info = InfoOf(fields.opcode);
  if (!info.valid()) return 0;
  const bool bitmap = info.kind == PacketKind::kAck && fields.repair != 0;
  const size_t payload_bytes =
      info.has_payload || bitmap ? fields.payload.size() : 0;
  const uint32_t pad = PadOf(static_cast<uint32_t>(payload_bytes));
  const size_t bytes = info.header_bytes + payload_bytes + pad;
  if (out.size() < bytes + kIcrcBytes) return 0;
  if (bytes + kIcrcBytes > kRoceMaxBytes) return 0;
  Appender appender(out.data());
  appender.Append(MakeBth(fields, pad));
  AppendExtendedHeaders(fields, info, appender);
  appender.AppendZeros(info.header_bytes - appender.size());  // of a CNP
  appender.AppendBytes(fields.payload.first(payload_bytes));
  appender.AppendZeros(pad);
  return appender.size();
}

size_t EmitFrame(const HeaderTemplate& headers, const PacketFields& fields,
                 std::span<uint8_t> out) {
  if (out.size() < HeaderTemplate::kMaxBytes) return 0;
  uint8_t* bth = out.data() + headers.size();
  // Write() needs the length, and overwrites what follows the headers.
  const size_t bytes = EmitRoce(fields, out.subspan(headers.size()));
  if (bytes == 0) return 0;
  uint8_t header_bytes[HeaderTemplate::kMaxBytes];
  headers.Write(header_bytes, static_cast<uint16_t>(bytes + kIcrcBytes));
  std::memcpy(out.data(), header_bytes, headers.size());
  const uint32_t prefix =
      IcrcPrefix(out.data() + headers.ip_offset(), headers.framing());
  StoreIcrc(bth + bytes, IcrcExtend(prefix, bth, bytes));
  return headers.size() + bytes + kIcrcBytes;
}

}  // namespace urnic::wire
