#include "transport/wire/opcode_table.h"

#include "transport/wire/bth.h"
#include "transport/wire/rdma_headers.h"

namespace urnic::wire {
namespace {

enum Position : uint8_t { kFirst = 1, kMiddle = 0, kLast = 2, kOnly = 3 };

enum Header : uint8_t {
  kNoHeader = 0,
  kReth = 1,
  kAeth = 2,
  kAtomicEth = 4,
  kAtomicAckEth = 8,
  kImm = 16,
  kIeth = 32,
  kFeth = 64,
};

// The meaning of the low five bits of an opcode, the same for every service.
struct Operation {
  const char* name;
  const char* token;
  PacketKind kind;
  Position position;
  uint8_t headers;
  bool payload;
};

constexpr PacketKind kS = PacketKind::kSend;
constexpr PacketKind kW = PacketKind::kWrite;
constexpr PacketKind kR = PacketKind::kReadResponse;

constexpr Operation kOperations[32] = {
    {"SEND First", "SEND_FIRST", kS, kFirst, kNoHeader, true},
    {"SEND Middle", "SEND_MIDDLE", kS, kMiddle, kNoHeader, true},
    {"SEND Last", "SEND_LAST", kS, kLast, kNoHeader, true},
    {"SEND Last with Immediate", "SEND_LAST_IMM", kS, kLast, kImm, true},
    {"SEND Only", "SEND_ONLY", kS, kOnly, kNoHeader, true},
    {"SEND Only with Immediate", "SEND_ONLY_IMM", kS, kOnly, kImm, true},
    {"RDMA WRITE First", "WRITE_FIRST", kW, kFirst, kReth, true},
    {"RDMA WRITE Middle", "WRITE_MIDDLE", kW, kMiddle, kNoHeader, true},
    {"RDMA WRITE Last", "WRITE_LAST", kW, kLast, kNoHeader, true},
    {"RDMA WRITE Last with Immediate", "WRITE_LAST_IMM", kW, kLast, kImm, true},
    {"RDMA WRITE Only", "WRITE_ONLY", kW, kOnly, kReth, true},
    {"RDMA WRITE Only with Immediate", "WRITE_ONLY_IMM", kW, kOnly,
     kReth | kImm, true},
    {"RDMA READ Request", "READ_REQUEST", PacketKind::kReadRequest, kOnly,
     kReth, false},
    {"RDMA READ response First", "READ_RESPONSE_FIRST", kR, kFirst, kAeth,
     true},
    {"RDMA READ response Middle", "READ_RESPONSE_MIDDLE", kR, kMiddle,
     kNoHeader, true},
    {"RDMA READ response Last", "READ_RESPONSE_LAST", kR, kLast, kAeth, true},
    {"RDMA READ response Only", "READ_RESPONSE_ONLY", kR, kOnly, kAeth, true},
    {"Acknowledge", "ACK", PacketKind::kAck, kOnly, kAeth, false},
    {"ATOMIC Acknowledge", "ATOMIC_ACK", PacketKind::kAtomicAck, kOnly,
     kAeth | kAtomicAckEth, false},
    {"CmpSwap", "CMP_SWAP", PacketKind::kAtomic, kOnly, kAtomicEth, false},
    {"FetchAdd", "FETCH_ADD", PacketKind::kAtomic, kOnly, kAtomicEth, false},
    {},  // 0x15: reserved
    {"SEND Last with Invalidate", "SEND_LAST_INV", kS, kLast, kIeth, true},
    {"SEND Only with Invalidate", "SEND_ONLY_INV", kS, kOnly, kIeth, true},
    {},
    {},
    {},
    {},  // 0x18 to 0x1b: reserved
    {"FLUSH", "FLUSH", PacketKind::kFlush, kOnly, kFeth | kReth, false},
    {"ATOMIC WRITE", "ATOMIC_WRITE", PacketKind::kAtomicWrite, kOnly, kReth,
     true},
};
constexpr uint8_t kOperationCount = 0x1e;
// UC and RD have a prefix of the list.
constexpr uint8_t kUcOperationCount = 0x0c;
constexpr uint8_t kRdOperationCount = 0x15;

//= IBTA A17.9.3: a CNP has 16 reserved bytes after its BTH
constexpr uint8_t kCnpReservedBytes = 16;

constexpr OpcodeInfo MakeRow(Service service, const Operation& operation) {
  OpcodeInfo info;
  if (operation.name == nullptr) return info;
  const auto has = [&](Header h) { return (operation.headers & h) != 0; };
  info.name = operation.name;
  info.token = operation.token;
  info.service = service;
  info.kind = operation.kind;
  info.first = (operation.position & kFirst) != 0;
  info.last = (operation.position & kLast) != 0;
  info.has_deth = service == Service::kUd;
  info.has_feth = has(kFeth);
  info.has_reth = has(kReth);
  info.has_aeth = has(kAeth);
  info.has_atomic_eth = has(kAtomicEth);
  info.has_atomic_ack_eth = has(kAtomicAckEth);
  info.has_imm = has(kImm);
  info.has_ieth = has(kIeth);
  info.has_payload = operation.payload;
  info.has_xrceth = service == Service::kXrc && info.request();
  info.extended_offset =
      static_cast<uint8_t>(sizeof(Bth) + info.has_xrceth * sizeof(XrcEth) +
                           info.has_feth * sizeof(Feth));
  info.header_bytes = static_cast<uint8_t>(
      info.extended_offset + info.has_deth * sizeof(Deth) +
      info.has_reth * sizeof(Reth) + info.has_aeth * sizeof(Aeth) +
      info.has_atomic_eth * sizeof(AtomicEth) +
      info.has_atomic_ack_eth * sizeof(AtomicAckEth) +
      info.has_imm * sizeof(ImmDt) + info.has_ieth * sizeof(Ieth));
  return info;
}

// A row of a service that we do not support: only a name.
constexpr OpcodeInfo NameOnly(Service service, const char* name,
                              const char* token) {
  OpcodeInfo info;
  if (name == nullptr) return info;
  info.name = name;
  info.token = token;
  info.service = service;
  return info;
}

//= IBTA 9.2.1: the top three bits of the opcode name the service, and the other
//= bits the operation
constexpr std::array<OpcodeInfo, 256> BuildTable() {
  constexpr uint8_t kUcBase = 0x20;
  constexpr uint8_t kRdBase = 0x40;
  constexpr uint8_t kUdBase = 0x60;
  constexpr auto kXrcBase = static_cast<uint8_t>(Opcode::kXrcBase);
  std::array<OpcodeInfo, 256> table{};
  for (uint8_t i = 0; i < kOperationCount; ++i) {
    const Operation& operation = kOperations[i];
    table[i] = MakeRow(Service::kRc, operation);
    table[kXrcBase + i] = MakeRow(Service::kXrc, operation);
  }
  for (uint8_t i = 0; i < kUcOperationCount; ++i) {
    table[kUcBase + i] = MakeRow(Service::kUc, kOperations[i]);
  }
  for (uint8_t i = 0; i < kRdOperationCount; ++i) {
    table[kRdBase + i] =
        NameOnly(Service::kRd, kOperations[i].name, kOperations[i].token);
  }
  table[kRdBase + 0x15] = NameOnly(Service::kRd, "RESYNC", "RESYNC");
  for (const uint8_t i : {0x04, 0x05}) {
    table[kUdBase + i] = MakeRow(Service::kUd, kOperations[i]);
  }
  OpcodeInfo& cnp = table[static_cast<uint8_t>(Opcode::kCnp)];
  cnp = NameOnly(Service::kCnp, "CNP", "CNP");
  cnp.kind = PacketKind::kCnp;
  cnp.first = cnp.last = true;
  cnp.header_bytes = sizeof(Bth) + kCnpReservedBytes;
  return table;
}

}  // namespace

constinit const std::array<OpcodeInfo, 256> kOpcodeTable = BuildTable();

const char* ServiceName(Service service) {
  switch (service) {
    case Service::kRc:
      return "RC";
    case Service::kUc:
      return "UC";
    case Service::kRd:
      return "RD";
    case Service::kUd:
      return "UD";
    case Service::kXrc:
      return "XRC";
    case Service::kCnp:
      return "CNP";
    case Service::kNone:
      break;
  }
  return "reserved";
}

}  // namespace urnic::wire
