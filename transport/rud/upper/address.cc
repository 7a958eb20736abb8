#include "transport/rud/upper/address.h"

#include <cstring>

#include "transport/wire/be.h"

namespace urnic::rud::upper {
namespace {

using wire::Be;

struct WireHead {
  uint8_t magic[4] = {'u', 'r', 'u', 'd'};
  uint8_t version = EndpointAddress::kVersion;
  uint8_t nics = 0;
  uint8_t reserved[2] = {};
  Be<uint64_t> incarnation;
  Be<uint64_t> reassembly_bytes;
  Be<uint32_t> open_messages;
};
static_assert(sizeof(WireHead) == 28 && alignof(WireHead) == 1);

struct WireNic {
  wire::Gid gid;
  Be<uint32_t> window;
  Be<uint32_t> key;
  Be<uint32_t> packet_bytes;
};
static_assert(sizeof(WireNic) == 28 && alignof(WireNic) == 1);

}  // namespace

std::vector<uint8_t> EndpointAddress::Encode() const {
  WireHead head;
  head.nics = static_cast<uint8_t>(nics.size());
  head.incarnation = Be<uint64_t>(incarnation);
  head.reassembly_bytes = Be<uint64_t>(reassembly_bytes);
  head.open_messages = Be<uint32_t>(open_messages);
  std::vector<uint8_t> bytes(sizeof(WireHead) + nics.size() * sizeof(WireNic));
  std::memcpy(bytes.data(), &head, sizeof(head));
  size_t at = sizeof(head);
  for (const NicAddress& from : nics) {
    WireNic nic;
    nic.gid = from.window.gid;
    nic.window = Be<uint32_t>(from.window.window);
    nic.key = Be<uint32_t>(from.window.key);
    nic.packet_bytes = Be<uint32_t>(from.packet_bytes);
    std::memcpy(&bytes[at], &nic, sizeof(nic));
    at += sizeof(nic);
  }
  return bytes;
}

std::optional<EndpointAddress> EndpointAddress::Decode(
    std::span<const uint8_t> bytes) {
  const WireHead expected;
  WireHead head;
  if (bytes.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (std::memcmp(head.magic, expected.magic, sizeof(head.magic)) != 0 ||
      head.version != kVersion || head.nics == 0 || head.nics > kMaxNics ||
      bytes.size() != sizeof(head) + head.nics * sizeof(WireNic)) {
    return std::nullopt;
  }
  EndpointAddress out;
  out.incarnation = head.incarnation.value();
  out.reassembly_bytes = head.reassembly_bytes.value();
  out.open_messages = head.open_messages.value();
  if (out.incarnation == 0) return std::nullopt;
  for (size_t i = 0; i < head.nics; ++i) {
    WireNic nic;
    std::memcpy(&nic, &bytes[sizeof(head) + i * sizeof(nic)], sizeof(nic));
    const uint32_t packet_bytes = nic.packet_bytes.value();
    if (packet_bytes < kLeastPacketBytes || packet_bytes > UINT16_MAX)
      return std::nullopt;
    out.nics.push_back(
        {{nic.gid, nic.window.value(), nic.key.value()}, packet_bytes});
  }
  return out;
}

}  // namespace urnic::rud::upper
