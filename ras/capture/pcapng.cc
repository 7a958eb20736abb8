#include "ras/capture/pcapng.h"

#include <cstring>

namespace urnic::pcapng {
namespace {

// Block types (pcapng draft, 4)
constexpr uint32_t kSection = 0x0a0d0d0a;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kEnhancedPacket = 6;
// (4.1)
constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d;
// Codes of options (3.5, 4.1, 4.2 and 4.3)
constexpr uint16_t kEnd = 0;
constexpr uint16_t kComment = 1;
constexpr uint16_t kUserApplication = 4;
constexpr uint16_t kName = 2;
constexpr uint16_t kDescription = 3;
constexpr uint16_t kTimeResolution = 9;
constexpr uint16_t kFlags = 2;

constexpr uint16_t kEthernet = 1;
// Where a packet block has the number of the interface.
constexpr size_t kPacketInterface = 8;

template <typename T>
void AppendNumber(T number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void Pad(std::string& out) { out.append(-out.size() & 3, '\0'); }

void AppendOption(uint16_t code, std::string_view value, std::string& out) {
  AppendNumber(code, out);
  AppendNumber(static_cast<uint16_t>(value.size()), out);
  out += value;
  Pad(out);
}

void AppendEnd(std::string& out) { AppendOption(kEnd, "", out); }

// Begins a block; End() sets its length. REQUIRES: out.size() is a multiple of
// four.
size_t Begin(uint32_t type, std::string& out) {
  const size_t begin = out.size();
  AppendNumber(type, out);
  AppendNumber(uint32_t{0}, out);
  return begin;
}

void End(size_t begin, std::string& out) {
  const auto length =
      static_cast<uint32_t>(out.size() - begin + sizeof(uint32_t));
  AppendNumber(length, out);
  std::memcpy(&out[begin + sizeof(uint32_t)], &length, sizeof(length));
}

}  // namespace

void AppendSection(std::string_view application, std::string& out) {
  const size_t begin = Begin(kSection, out);
  AppendNumber(kByteOrderMagic, out);
  AppendNumber(uint16_t{1}, out);  // version 1.0
  AppendNumber(uint16_t{0}, out);
  AppendNumber(int64_t{-1}, out);  // the length of the section is not known
  AppendOption(kUserApplication, application, out);
  AppendEnd(out);
  End(begin, out);
}

void AppendInterface(std::string_view name, std::string_view description,
                     std::string& out) {
  const size_t begin = Begin(kInterface, out);
  AppendNumber(kEthernet, out);
  AppendNumber(uint16_t{0}, out);  // reserved
  AppendNumber(uint32_t{0}, out);  // no limit of the length
  AppendOption(kName, name, out);
  AppendOption(kDescription, description, out);
  AppendOption(kTimeResolution, "\x09", out);  // 10^-9 s
  AppendEnd(out);
  End(begin, out);
}

void AppendPacket(const Packet& packet, std::string& out) {
  const size_t begin = Begin(kEnhancedPacket, out);
  AppendNumber(uint32_t{0}, out);  // the interface
  AppendNumber(static_cast<uint32_t>(packet.at_ns >> 32), out);
  AppendNumber(static_cast<uint32_t>(packet.at_ns), out);
  AppendNumber(static_cast<uint32_t>(packet.bytes.size()), out);
  AppendNumber(packet.frame_bytes, out);
  out.append(reinterpret_cast<const char*>(packet.bytes.data()),
             packet.bytes.size());
  Pad(out);
  std::string flags;
  AppendNumber(uint32_t{packet.outbound ? 2u : 1u}, flags);
  AppendOption(kFlags, flags, out);
  if (!packet.comment.empty()) AppendOption(kComment, packet.comment, out);
  AppendEnd(out);
  End(begin, out);
}

std::optional<size_t> SetInterface(uint32_t interface, std::string& packets) {
  size_t count = 0;
  for (size_t at = 0; at != packets.size(); ++count) {
    uint32_t head[2];  // type, length
    if (packets.size() - at < sizeof(head)) return std::nullopt;
    std::memcpy(head, &packets[at], sizeof(head));
    if (head[0] != kEnhancedPacket || head[1] < kPacketInterface + 4 ||
        head[1] % 4 != 0 || head[1] > packets.size() - at) {
      return std::nullopt;
    }
    std::memcpy(&packets[at + kPacketInterface], &interface, sizeof(interface));
    at += head[1];
  }
  return count;
}

}  // namespace urnic::pcapng
