#include <iterator>

#include "transport/wire/ddp.h"
#include "transport/wire/mpa.h"
#include "transport/wire/pretty.h"
#include "transport/wire/pretty_text.h"
#include "transport/wire/reader.h"

namespace urnic::wire {
namespace {

constexpr const char* kOpcodeNames[] = {
    "WRITE",
    "READ_REQUEST",
    "READ_RESPONSE",
    "SEND",
    "SEND_INVALIDATE",
    "SEND_SOLICITED",
    "SEND_SOLICITED_INVALIDATE",
    "TERMINATE",
    "IMMEDIATE",
    "IMMEDIATE_SOLICITED",
    "ATOMIC_REQUEST",
    "ATOMIC_RESPONSE",
};
static_assert(std::size(kOpcodeNames) == kRdmapOpcodes);

void AddReadRequest(std::string& line, const RdmapReadRequest& request) {
  AddField(line, "sink", Hex(request.sink_stag.value()));
  AddField(line, "to", Hex(request.sink_offset.value()));
  AddField(line, "bytes", request.bytes.value());
  AddField(line, "source", Hex(request.source_stag.value()));
  AddField(line, "to", Hex(request.source_offset.value()));
}

void AddAtomicRequest(std::string& line, const RdmapAtomicRequest& request) {
  const uint32_t operation = request.operation.value() & kAtomicOperationMask;
  const bool add = operation == kAtomicFetchAdd;
  const bool compare = operation == kAtomicCompareSwap;
  if (!add && !compare && operation != kAtomicSwap) {
    return AddField(line, "operation", operation);
  }
  AddField(line, "id", request.request_id.value());
  AddField(line, "stag", Hex(request.stag.value()));
  AddField(line, "to", Hex(request.offset.value()));
  AddField(line, add ? "add" : "swap", Hex(request.swap_or_add.value()));
  AddField(line, "mask", Hex(request.swap_or_add_mask.value()));
  if (!compare) return;
  AddField(line, "compare", Hex(request.compare.value()));
  AddField(line, "mask", Hex(request.compare_mask.value()));
}

void AddTerminate(std::string& line, const RdmapTerminate& terminate) {
  AddField(line, "layer", terminate.layer());
  AddField(line, "type", terminate.type());
  AddField(line, "code", Hex(terminate.code));
  AddField(line, "present", Hex(terminate.present));
}

// The beginning of a message, if all of that is here.
void AddMessage(std::string& line, RdmapOpcode opcode, Reader reader) {
  switch (opcode) {
    case RdmapOpcode::kReadRequest:
      if (const auto* request = reader.Take<RdmapReadRequest>()) {
        AddReadRequest(line, *request);
      }
      return;
    case RdmapOpcode::kAtomicRequest:
      if (const auto* request = reader.Take<RdmapAtomicRequest>()) {
        AddAtomicRequest(line, *request);
      }
      return;
    case RdmapOpcode::kAtomicResponse:
      if (const auto* response = reader.Take<RdmapAtomicResponse>()) {
        AddField(line, "id", response->request_id.value());
        AddField(line, "original", Hex(response->original.value()));
      }
      return;
    case RdmapOpcode::kTerminate:
      if (const auto* terminate = reader.Take<RdmapTerminate>()) {
        AddTerminate(line, *terminate);
      }
      return;
    default:
      return;
  }
}

std::string PrettyTagged(std::string line, Reader reader) {
  const DdpTagged* header = reader.Take<DdpTagged>();
  if (header == nullptr) return line + " cut short";
  AddField(line, "stag", Hex(header->stag.value()));
  AddField(line, "to", Hex(header->offset.value()));
  AddField(line, "len", reader.rest().size());
  return line;
}

std::string PrettyUntagged(std::string line, Reader reader) {
  const DdpUntagged* header = reader.Take<DdpUntagged>();
  if (header == nullptr) return line + " cut short";
  const auto opcode = static_cast<RdmapOpcode>(header->control.opcode());
  if (opcode == RdmapOpcode::kSendInvalidate ||
      opcode == RdmapOpcode::kSendSolicitedInvalidate) {
    AddField(line, "inv", Hex(header->invalidate_stag.value()));
  }
  AddField(line, "queue", header->queue.value());
  AddField(line, "msn", header->msn.value());
  AddField(line, "mo", header->offset.value());
  AddField(line, "len", reader.rest().size());
  if (header->offset.value() == 0) AddMessage(line, opcode, reader);
  return line;
}

void AddEnhanced(std::string& line, const MpaEnhanced& enhanced) {
  AddField(line, "ird", enhanced.ird());
  AddField(line, "ord", enhanced.ord());
  const uint16_t ird_flags = enhanced.ird_flags.value();
  const uint16_t ord_flags = enhanced.ord_flags.value();
  if ((ird_flags & MpaEnhanced::kPeerToPeer) != 0) line += " p2p";
  if ((ird_flags & MpaEnhanced::kRtrZeroFpdu) != 0) line += " rtr-fpdu";
  if ((ord_flags & MpaEnhanced::kRtrWrite) != 0) line += " rtr-write";
  if ((ord_flags & MpaEnhanced::kRtrRead) != 0) line += " rtr-read";
}

}  // namespace

std::string Pretty(const TcpSegment& segment) {
  struct FlagName {
    uint8_t flag;
    const char* name;
  };
  constexpr FlagName kFlagNames[] = {
      {kTcpSyn, " SYN"}, {kTcpFin, " FIN"}, {kTcpRst, " RST"},
      {kTcpPsh, " PSH"}, {kTcpAck, " ACK"}, {kTcpUrg, " URG"},
      {kTcpEce, " ECE"}, {kTcpCwr, " CWR"},
  };
  std::string line = "TCP " + std::to_string(segment.src_port) + " > " +
                     std::to_string(segment.dst_port);
  for (const auto& [flag, name] : kFlagNames) {
    if (segment.Has(flag)) line += name;
  }
  AddField(line, "seq", segment.seq.value());
  if (segment.Has(kTcpAck)) AddField(line, "ack", segment.ack.value());
  AddField(line, "win", segment.window);
  if (segment.Has(kTcpUrg)) AddField(line, "urgent", segment.urgent);
  const TcpOptions& options = segment.options;
  if (options.mss) AddField(line, "mss", *options.mss);
  if (options.sack_permitted) line += " sackok";
  if (options.timestamps) {
    AddField(line, "ts", options.timestamps->value);
    line += " " + std::to_string(options.timestamps->echo);
  }
  if (options.window_shift) AddField(line, "shift", *options.window_shift);
  if (options.urnic) line += " urnic";
  for (const SackBlock& block : options.sacks()) {
    AddField(line, "sack",
             std::to_string(block.begin.value()) + "-" +
                 std::to_string(block.end.value()));
  }
  AddField(line, "len", segment.payload.size());
  return line;
}

std::string PrettyMpaFrame(std::span<const uint8_t> bytes) {
  Reader reader(bytes);
  const MpaFrame* frame = reader.Take<MpaFrame>();
  if (frame == nullptr) return "mpa cut short";
  std::string line = frame->is_request() ? "mpa request"
                     : frame->is_reply() ? "mpa reply"
                                         : "mpa unknown key";
  AddField(line, "rev", frame->revision);
  if ((frame->flags & kMpaMarkers) != 0) line += " markers";
  if ((frame->flags & kMpaCrc) != 0) line += " crc";
  if ((frame->flags & kMpaReject) != 0) line += " reject";
  size_t private_bytes = frame->private_data_bytes.value();
  const bool enhanced = (frame->flags & kMpaEnhancedSetup) != 0;
  if (enhanced && private_bytes >= sizeof(MpaEnhanced)) {
    if (const auto* setup = reader.Take<MpaEnhanced>()) {
      AddEnhanced(line, *setup);
      private_bytes -= sizeof(MpaEnhanced);
    }
  }
  AddField(line, "private", private_bytes);
  return line;
}

std::string PrettyUlpdu(std::span<const uint8_t> ulpdu) {
  if (ulpdu.empty()) return "empty";
  Reader reader(ulpdu);
  const DdpControl* control = Reader(ulpdu).Take<DdpControl>();
  if (control == nullptr) return "cut short";
  if ((control->ddp & kDdpVersionMask) != kDdpVersion) {
    return "ddp version " + std::to_string(control->ddp & kDdpVersionMask);
  }
  if ((control->rdmap & kRdmapVersionMask) != kRdmapVersion) {
    return "rdmap version " +
           std::to_string((control->rdmap & kRdmapVersionMask) >> 6);
  }
  const uint8_t opcode = control->opcode();
  std::string line = opcode < kRdmapOpcodes
                         ? kOpcodeNames[opcode]
                         : "opcode " + std::to_string(opcode);
  if (control->last()) line += " last";
  return control->tagged() ? PrettyTagged(line, reader)
                           : PrettyUntagged(line, reader);
}

}  // namespace urnic::wire
