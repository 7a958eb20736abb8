// Any bytes as the payload of a UDP datagram to RUD's port. What ParseRud()
// says is compared with the rules of docs/design/0014-rud.md, written down a
// second time in the simplest way. Random changes hardly ever give a correct
// length or CRC. Therefore each input is tried twice: as it is, and with both
// corrected.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transport/base/check.h"
#include "transport/wire/checksum.h"
#include "transport/wire/frame.h"
#include "transport/wire/rud.h"

namespace urnic::wire {
namespace {

using Bytes = std::vector<uint8_t>;

// A number of `count` bytes in network order.
uint64_t Number(const Bytes& bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | bytes[at + i];
  return number;
}

// Headers by type, from the tables: 24 for the base, 16 for the transfer, 28
// for data, 40 for a read, 32 for a third party, a notice has 32.
constexpr size_t kHeaders[] = {0,  68, 80, 112, 100, 40, 24, 72,
                               48, 0,  0,  0,   0,   0,  0,  0};

// Lists the packets of a transfer one after the other.
bool IsOneOfItsTransfer(uint64_t total, uint64_t stride, uint64_t number,
                        uint64_t offset, uint64_t payload) {
  uint64_t at = 0;
  bool found = false;
  for (uint64_t i = 0; stride != 0 && i < 64; ++i) {
    const uint64_t size = total - at < stride ? total - at : stride;
    if (i == number) found = offset == at && payload == size;
    at += size;
    if (at == total) return found && number <= i;
  }
  return false;
}

bool AreComplete(const Bytes& p, size_t payload) {
  for (size_t at = 24; at < 24 + payload; at += 20) {
    if (p[at + 16] != 0) return false;
  }
  return true;
}

bool AreOfItsTransfer(uint64_t total, uint64_t stride, uint64_t mask) {
  if (mask == 0 || stride == 0) return false;
  const uint64_t packets =
      total == 0 ? 1 : total / stride + (total % stride != 0);
  if (packets > 64) return false;
  for (uint64_t i = packets; i < 64; ++i) {
    if ((mask >> i & 1) != 0) return false;
  }
  return true;
}

// Of at most `most` writes, from `at` to `end`.
bool IsList(const Bytes& p, size_t at, size_t end, int most) {
  if (most == 0 || end - at < 10) return false;
  const size_t next = at + 10 + Number(p, at + 8, 2);
  return next == end || (next < end && IsList(p, next, end, most - 1));
}

// With the flag "list": data for memory, which answers nothing.
bool ListAgrees(const Bytes& p, size_t payload) {
  if ((p[1] & 8) == 0) return true;
  return (p[0] & 15) == 1 && (p[1] & 3) == 0 && IsList(p, 68, 68 + payload, 64);
}

bool Agrees(const Bytes& p, size_t payload) {
  switch (p[0] & 15) {
    case 1:
    case 4:
      return ListAgrees(p, payload) &&
             IsOneOfItsTransfer(Number(p, 48, 4), Number(p, 56, 2), p[58],
                                Number(p, 52, 4), payload);
    case 2:
    case 3:
      return payload == 0 &&
             AreOfItsTransfer(Number(p, 56, 4), Number(p, 60, 2),
                              Number(p, 72, 8));
    case 6:
      return payload >= 20 && payload <= 640 && payload % 20 == 0 &&
             AreComplete(p, payload);
    case 7:
      return payload == 0 && p[48] < 2;
    case 8:
      return payload == 0;
    default:
      return true;
  }
}

RxVerdict Expected(const Bytes& p) {
  if (p.size() < 28) return RxVerdict::kTruncated;
  if (p[0] >> 4 != 1) return RxVerdict::kRudBadVersion;
  const size_t headers = kHeaders[p[0] & 15];
  if (headers == 0) return RxVerdict::kRudMalformed;
  if (p.size() < headers + 4) return RxVerdict::kTruncated;
  const size_t payload = p.size() - headers - 4;
  const bool good = (p[1] & 0xf0) == 0 && (p[3] & 0xf8) == 0 &&
                    Number(p, 20, 2) == payload && Agrees(p, payload);
  return good ? RxVerdict::kAccept : RxVerdict::kRudMalformed;
}

// A bit at a time.
uint32_t SlowCrc(const Bytes& bytes, size_t count) {
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < count; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    }
  }
  return ~crc;
}

void CheckCrc(const Bytes& bytes) {
  if (bytes.size() < kRudCrcBytes) return;
  const Gid source = Gid::FromIpv4(0x0a010001);
  const Gid target = Gid::FromIpv4(0x0a010002);
  Bytes covered(source.bytes.begin(), source.bytes.end());
  covered.insert(covered.end(), target.bytes.begin(), target.bytes.end());
  covered.insert(covered.end(), bytes.begin(), bytes.end());
  const size_t end = covered.size() - kRudCrcBytes;
  const uint32_t stored = covered[end] | covered[end + 1] << 8 |
                          covered[end + 2] << 16 |
                          uint32_t{covered[end + 3]} << 24;
  URNIC_CHECK(RudCrcHolds(RudCrcOfAddresses(source, target), bytes) ==
              (SlowCrc(covered, end) == stored));
}

uint64_t ReadList(const RudPacket& packet) {
  uint64_t sum = 0;
  uint32_t writes = 0;
  const uint8_t* end = packet.payload + packet.payload_bytes;
  const RudListEntry* write = &packet.first_write();
  for (const uint8_t* at = packet.payload; at != end; ++writes) {
    const uint32_t bytes = write->bytes.value();
    sum += write->pvo.value();
    for (uint32_t i = 0; i < bytes; ++i) sum += write->data()[i];
    at = write->data() + bytes;
    write = &write->next();
  }
  URNIC_CHECK(writes >= 1 && writes <= kRudMaxWrites);
  return sum;
}

// All that a receiver would read, so that the sanitizer sees it.
uint64_t ReadAll(const RudPacket& packet) {
  uint64_t sum = packet.base->window.value();
  switch (packet.type) {
    case RudType::kThirdReadRequest:
      sum += packet.third().context.key.value();
      [[fallthrough]];
    case RudType::kReadRequest:
      return sum + packet.read().packets.value();
    case RudType::kThirdData:
      sum += packet.third().context.key.value();
      return sum + packet.data().source.key.value();
    case RudType::kData:
      if (packet.is_list()) sum += ReadList(packet);
      return sum + packet.data().source.key.value();
    case RudType::kFifo:
      return sum + packet.tag().bytes[15];
    case RudType::kCompletion:
      URNIC_CHECK(packet.completions() >= 1 &&
                  packet.completions() <= kRudMaxCompletions);
      for (uint32_t i = 0; i < packet.completions(); ++i) {
        sum += packet.completion(i).tid.value() + packet.completion(i).path;
      }
      return sum;
    case RudType::kNotice:
      return sum + packet.notice().pvo.value();
    case RudType::kStateRequest:
      return sum + packet.asker().key.value();
  }
  return sum;
}

void CheckFrame(const Bytes& bytes) {
  constexpr size_t kHead = sizeof(PlainHeaders);
  if (bytes.size() > 1500) return;
  PlainHeaders head;
  head.eth.ether_type = Be<uint16_t>(kEtherTypeIpv4);
  head.ip = Ipv4();
  auto* ip = reinterpret_cast<uint8_t*>(&head.ip);
  ip[0] = 0x45;
  head.ip.protocol = kIpProtocolUdp;
  const auto udp_bytes = static_cast<uint16_t>(sizeof(Udp) + bytes.size());
  head.ip.total_length =
      Be<uint16_t>(static_cast<uint16_t>(sizeof(Ipv4) + udp_bytes));
  head.ip.checksum = Be<uint16_t>(0);
  head.ip.checksum = Be<uint16_t>(ChecksumSum().AddHeader(head.ip).Finish());
  head.udp.dst_port = Be<uint16_t>(kRudUdpPort);
  head.udp.length = Be<uint16_t>(udp_bytes);
  Bytes frame(kHead);
  std::memcpy(frame.data(), &head, kHead);
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  FrameView view;
  URNIC_CHECK(ParseFrame(frame.data(), frame.size(), view) == RxVerdict::kRud);
  URNIC_CHECK(view.payload == frame.data() + kHead &&
              view.payload_bytes == bytes.size());
}

void Check(const Bytes& bytes) {
  RudPacket packet;
  const auto length = static_cast<uint32_t>(bytes.size());
  const RxVerdict verdict = ParseRud(bytes.data(), length, packet);
  URNIC_CHECK(verdict == Expected(bytes));
  CheckCrc(bytes);
  CheckFrame(bytes);
  if (verdict != RxVerdict::kAccept) return;
  URNIC_CHECK(packet.payload >= bytes.data() &&
              packet.payload + packet.payload_bytes + kRudCrcBytes ==
                  bytes.data() + bytes.size());
  // Reading has no effect; the sum only keeps the compiler from removing it.
  volatile uint64_t sum = ReadAll(packet);
  (void)sum;
}

// Corrects version and type, flags, the length of the payload and the CRC.
void Repair(Bytes& bytes) {
  if (bytes.size() < 28) return;
  bytes[0] = static_cast<uint8_t>(1 << 4 | (1 + (bytes[0] & 7)));
  bytes[1] &= 15;
  bytes[3] &= 7;
  const size_t headers = kHeaders[bytes[0] & 15];
  if (bytes.size() < headers + 4) bytes.resize(headers + 4);
  const size_t payload = bytes.size() - headers - 4;
  bytes[20] = static_cast<uint8_t>(payload >> 8);
  bytes[21] = static_cast<uint8_t>(payload);
  Crc32c crc =
      RudCrcOfAddresses(Gid::FromIpv4(0x0a010001), Gid::FromIpv4(0x0a010002));
  crc.Add({bytes.data(), bytes.size() - 4}).Store(&bytes[bytes.size() - 4]);
}

// Of a data packet: the offset of its number, and what its payload allows.
void RepairData(Bytes& bytes) {
  const uint8_t type = bytes.empty() ? 0 : bytes[0] & 15;
  if ((type != 1 && type != 4) || bytes.size() < kHeaders[type] + 4) return;
  bytes[58] &= 63;
  const auto offset = static_cast<uint32_t>(Number(bytes, 56, 2) * bytes[58]);
  const auto payload = static_cast<uint32_t>(bytes.size() - kHeaders[type] - 4);
  const Be<uint32_t> fields[] = {Be<uint32_t>(offset + payload),
                                 Be<uint32_t>(offset)};
  std::memcpy(&bytes[48], fields, sizeof(fields));
}

// One packet of data to memory: a list whose last write ends with the payload.
// The rest is then up to Repair(), which adds one to the type, and
// RepairData().
void RepairList(Bytes& bytes) {
  if (bytes.size() < 68 + 10 + 4) return;
  bytes[0] = 0x10;
  bytes[1] = static_cast<uint8_t>((bytes[1] & 4) | 8);
  bytes[56] = bytes[57] = 0xff;  // the stride
  bytes[58] = 0;
  const size_t end = bytes.size() - 4;
  for (size_t at = 68, writes = 1;; ++writes) {
    const size_t left = end - at - 10;
    const size_t said = Number(bytes, at + 8, 2);
    if (writes == 64 || left < said + 10) {
      bytes[at + 8] = static_cast<uint8_t>(left >> 8);
      bytes[at + 9] = static_cast<uint8_t>(left);
      return;
    }
    at += 10 + said;
  }
}

}  // namespace
}  // namespace urnic::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, so that the sanitizer sees an access to the
  // first byte after it.
  urnic::wire::Bytes packet(data, data + size);
  urnic::wire::Check(packet);
  urnic::wire::Repair(packet);
  packet.shrink_to_fit();
  urnic::wire::Check(packet);
  urnic::wire::RepairData(packet);
  urnic::wire::Check(packet);
  urnic::wire::RepairList(packet);
  urnic::wire::Repair(packet);
  urnic::wire::RepairData(packet);
  urnic::wire::Check(packet);
  return 0;
}
