#include "tests/scripts/packet_text.h"

#include <algorithm>
#include <cstring>

namespace urnic::scripts {
namespace {

using wire::PacketFields;

constexpr uint8_t kAckOpcode =
    static_cast<uint8_t>(wire::Opcode::kRcAcknowledge);

bool FindOpcode(const std::string& token, uint8_t& out) {
  for (uint32_t i = 0; i < 256; ++i) {
    const wire::OpcodeInfo& info = wire::kOpcodeTable[i];
    const bool ours = info.service == wire::Service::kRc ||
                      info.service == wire::Service::kCnp;
    if (ours && info.token == token) {
      out = static_cast<uint8_t>(i);
      return true;
    }
  }
  return false;
}

bool NakCode(const std::string& name, uint8_t& out) {
  if (name == "seq") out = wire::kNakPsnSequenceError;
  if (name == "invalid") out = wire::kNakInvalidRequest;
  if (name == "access") out = wire::kNakRemoteAccessError;
  if (name == "op") out = wire::kNakRemoteOperationalError;
  return out != 0;
}

// "NAK seq", "RNR 12", or an opcode's token.
std::string ParseRcKind(const std::string& kind, Words& words,
                        PacketText& out) {
  PacketFields& f = out.fields;
  f.syndrome = wire::kAethAck | wire::kAethCreditsInvalid;
  if (kind == "NAK") {
    f.opcode = kAckOpcode;
    f.syndrome = 0;
    out.said.insert("syndrome");
    return NakCode(words.Next(), f.syndrome) ? "" : "NAK of what?";
  }
  if (kind == "RNR") {
    f.opcode = kAckOpcode;
    const auto code = words.Number();
    if (!code || *code > 31) return "RNR needs a timer code, 0 to 31";
    f.syndrome = static_cast<uint8_t>(wire::kAethRnrNak | *code);
    out.said.insert("syndrome");
    return "";
  }
  if (!FindOpcode(kind, f.opcode)) return "unknown packet '" + kind + "'";
  if (kind == "CNP") {
    f.becn = true;
    f.mig_req = false;
  }
  if (f.opcode == kAckOpcode) out.said.insert("syndrome");
  return "";
}

// The same, for XRC if it starts with "XRC_".
std::string ParseKind(Words& words, PacketText& out) {
  std::string kind = words.Next();
  const bool xrc = kind.starts_with("XRC_");
  if (xrc) kind.erase(0, 4);
  std::string problem = ParseRcKind(kind, words, out);
  if (xrc) out.fields.opcode += static_cast<uint8_t>(wire::Opcode::kXrcBase);
  return problem;
}

void SetNumber(const std::string& key, uint64_t n, PacketText& out) {
  PacketFields& f = out.fields;
  const auto n32 = static_cast<uint32_t>(n);
  if (key == "psn") f.psn = Psn(n32);
  if (key == "len") out.len = n32;
  if (key == "data") out.data = static_cast<uint8_t>(n);
  if (key == "flush") f.flush = n32;
  if (key == "srq") f.srqn = n32;
  if (key == "dmalen") f.dma_length = n32;
  if (key == "rkey") f.rkey = n32;
  if (key == "msn") f.msn = n32;
  if (key == "syndrome") f.syndrome = static_cast<uint8_t>(n);
  if (key == "original") f.original_value = n;
  if (key == "swap" || key == "add") f.swap_or_add = n;
  if (key == "compare") f.compare = n;
  if (key == "pkey") f.pkey = static_cast<uint16_t>(n);
  if (key == "qp") f.dest_qp = Qpn{n32};
  if (key == "migreq") f.mig_req = n != 0;
  if (key == "repair") f.repair = static_cast<uint8_t>(n);
  if (key == "held") out.held = n32;
  if (key == "imm") std::memcpy(f.imm.data, &n32, 4);
}

bool IsNumberKey(const std::string& key) {
  static const std::set<std::string> kKeys = {
      "psn",      "len",   "data", "dmalen",  "rkey", "msn", "syndrome",
      "original", "swap",  "add",  "compare", "pkey", "qp",  "migreq",
      "imm",      "flush", "srq",  "repair",  "held"};
  return kKeys.count(key) != 0;
}

}  // namespace

std::string ParsePacketText(Words& words, const ResolvePlace& resolve,
                            PacketText& out) {
  out.fields.dest_qp = Qpn{0x11};
  if (std::string e = ParseKind(words, out); !e.empty()) return e;
  while (!words.empty()) {
    const std::string key = words.Next();
    out.said.insert(key);
    if (key == "ackreq") {
      out.fields.ack_requested = true;
    } else if (key == "solicited") {
      out.fields.solicited = true;
    } else if (key == "ce") {
      out.marked = true;
    } else if (key == "to" || key == "from") {
      Place place;
      const std::string word = words.Next();
      if (!resolve(word, place)) return "no place '" + word + "'";
      out.fields.virtual_address = place.address;
      if (place.is_region && out.said.count("rkey") == 0) {
        out.fields.rkey = place.key;
      }
    } else if (key == "key") {  // of a region, by its name
      Place place;
      if (!resolve(words.Next(), place)) return "no region for 'key'";
      out.fields.rkey = place.key;
      out.said.insert("rkey");
    } else if (IsNumberKey(key)) {
      const auto n = words.Number();
      if (!n) return "'" + key + "' needs a number";
      SetNumber(key, *n, out);
    } else {
      return "unknown word '" + key + "'";
    }
  }
  if (out.said.count("psn") == 0) return "every packet has a psn";
  if (out.said.count("data") == 0) out.data = 0x30;
  if (out.said.count("dmalen") == 0) out.fields.dma_length = out.len;
  return "";
}

testing::Packet BuildPacket(const PacketText& text) {
  std::vector<uint8_t> payload(text.len);
  for (size_t i = 0; i < payload.size(); ++i) {
    payload[i] = PatternByte(text.data, i);
  }
  if (text.said.count("held") != 0) {
    payload.resize(sizeof(text.held));
    std::memcpy(payload.data(), &text.held, sizeof(text.held));
  }
  PacketFields fields = text.fields;
  fields.payload = payload;
  return testing::MakePacket(fields);
}

namespace {

std::string Differ(const char* what, uint64_t want, uint64_t got) {
  return std::string(what) + " is " + std::to_string(got) + ", expected " +
         std::to_string(want);
}

// Compares the headers that an opcode adds to the BTH, as far as they were
// given.
std::string ExtendedMismatch(const PacketText& want, const PacketFields& g) {
  const PacketFields& w = want.fields;
  const auto said = [&](const char* key) { return want.said.count(key) != 0; };
  if ((said("to") || said("from")) && g.virtual_address != w.virtual_address) {
    return Differ("address", w.virtual_address, g.virtual_address);
  }
  if (said("rkey") && g.rkey != w.rkey) return Differ("rkey", w.rkey, g.rkey);
  if (said("dmalen") && g.dma_length != w.dma_length) {
    return Differ("dmalen", w.dma_length, g.dma_length);
  }
  if (said("flush") && g.flush != w.flush) {
    return Differ("flush", w.flush, g.flush);
  }
  if (said("srq") && g.srqn != w.srqn) return Differ("srq", w.srqn, g.srqn);
  if (said("msn") && g.msn != w.msn) return Differ("msn", w.msn, g.msn);
  if (said("syndrome") && g.syndrome != w.syndrome) {
    return Differ("syndrome", w.syndrome, g.syndrome);
  }
  if (said("original") && g.original_value != w.original_value) {
    return Differ("original", w.original_value, g.original_value);
  }
  if ((said("swap") || said("add")) && g.swap_or_add != w.swap_or_add) {
    return Differ("swap or add", w.swap_or_add, g.swap_or_add);
  }
  if (said("compare") && g.compare != w.compare) {
    return Differ("compare", w.compare, g.compare);
  }
  if (said("imm") && std::memcmp(g.imm.data, w.imm.data, 4) != 0) {
    return "the immediate data differ";
  }
  return "";
}

std::string PayloadMismatch(const PacketText& want,
                            const wire::RocePacket& got) {
  if (got.info->kind == wire::PacketKind::kAck) {
    std::vector<uint8_t> bitmap(want.said.count("held") != 0 ? 4 : 0);
    if (!bitmap.empty()) std::memcpy(bitmap.data(), &want.held, 4);
    const bool same = std::equal(bitmap.begin(), bitmap.end(), got.payload,
                                 got.payload + got.payload_bytes);
    return same ? "" : "what is held differs";
  }
  if (want.said.count("len") != 0 && got.payload_bytes != want.len) {
    return Differ("len", want.len, got.payload_bytes);
  }
  const uint8_t* pad = got.payload + got.payload_bytes;
  for (uint32_t i = 0; i < got.bth->pad_bytes(); ++i) {
    if (pad[i] != 0) return "padding is not zero";
  }
  if (want.said.count("data") == 0) return "";
  for (uint32_t i = 0; i < got.payload_bytes; ++i) {
    if (got.payload[i] != PatternByte(want.data, i)) {
      return Differ(("payload byte " + std::to_string(i)).c_str(),
                    PatternByte(want.data, i), got.payload[i]);
    }
  }
  return "";
}

}  // namespace

std::string Mismatch(const PacketText& want, const testing::Packet& got) {
  wire::RocePacket packet;
  if (!testing::SealIntact(got) ||
      wire::ParseRoce(got.data(), static_cast<uint32_t>(got.size()), packet) !=
          RxVerdict::kAccept) {
    return "the packet is malformed";
  }
  const PacketFields& w = want.fields;
  const PacketFields g = wire::FieldsOf(packet);
  if (g.opcode != w.opcode) return "another opcode";
  if (g.psn != w.psn) return Differ("psn", w.psn.value(), g.psn.value());
  if (g.ack_requested != w.ack_requested) return "ackreq differs";
  if (g.solicited != w.solicited) return "solicited differs";
  if (g.mig_req != w.mig_req) return "MigReq differs";
  if (g.becn != w.becn) return "BECN differs";
  if (g.repair != w.repair) return Differ("repair", w.repair, g.repair);
  if (g.pkey != w.pkey) return Differ("pkey", w.pkey, g.pkey);
  if (want.said.count("qp") == 0 ? g.dest_qp != Qpn{0x22}
                                 : g.dest_qp != w.dest_qp) {
    return Differ("qp", w.dest_qp.value, g.dest_qp.value);
  }
  if (packet.info->has_aeth && (g.syndrome & wire::kAethTypeMask) == 0 &&
      g.syndrome != wire::kAethCreditsInvalid) {
    return "credits are not 31";
  }
  if (std::string e = ExtendedMismatch(want, g); !e.empty()) return e;
  return PayloadMismatch(want, packet);
}

}  // namespace urnic::scripts
