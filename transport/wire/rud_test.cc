// Golden packets of an independent implementation, tests/rud/reference.py,
// which was written from the tables of docs/design/0014-rud.md.

#include "transport/wire/rud.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/pcap.h"
#include "transport/wire/frame.h"

namespace urnic::wire {
namespace {

using Bytes = std::vector<uint8_t>;
using ::urnic::testing::PcapFile;
using ::urnic::testing::ReadPcap;

constexpr char kFolder[] = "transport/wire/testdata/";
constexpr uint32_t kWindowMask = 0xffffff;

std::string ReadText(const std::string& name) {
  std::ifstream file(kFolder + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Hex(const uint8_t* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// Lines of "field value", as the goldens have them.
class Text {
 public:
  Text& Add(const std::string& name, uint64_t value) {
    return Add(name, std::to_string(value));
  }
  Text& Add(const std::string& name, const std::string& value) {
    text_ += name + " " + value + "\n";
    return *this;
  }
  Text& AddMask(const std::string& name, uint64_t mask) {
    const Be<uint64_t> wire(mask);
    return Add(name, Hex(reinterpret_cast<const uint8_t*>(&wire), 8));
  }
  Text& Context(const std::string& name, const RudContext& context) {
    return Add(name + ".number", context.number.value())
        .Add(name + ".key", context.key.value());
  }
  Text& Tid(const std::string& name, uint64_t tid) {
    return Add(name + ".transfer", tid >> 8).Add(name + ".attempt", tid & 0xff);
  }
  Text& Pvo(const std::string& name, uint64_t pvo) {
    return Add(name + ".key", pvo >> 47)
        .Add(name + ".table", pvo >> 42 & 31)
        .Add(name + ".offset", pvo & ((uint64_t{1} << 42) - 1));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool IsList(const RudPacket& packet) {
  return packet.type == RudType::kData && packet.is_list();
}

std::vector<const RudListEntry*> WritesOf(const RudPacket& packet) {
  std::vector<const RudListEntry*> writes;
  const uint8_t* end = packet.payload + packet.payload_bytes;
  for (const uint8_t* at = packet.payload; at < end;) {
    writes.push_back(reinterpret_cast<const RudListEntry*>(at));
    at += 10 + writes.back()->bytes.value();
    EXPECT_LE(at, end);
  }
  EXPECT_LE(writes.size(), kRudMaxWrites);
  return writes;
}

void AddBase(const RudBase& base, Text& text) {
  text.Add("version", base.version())
      .Add("type", base.type())
      .Add("flags.unknown", base.flags >> 4)
      .Add("flags.list", (base.flags & kRudList) != 0)
      .Add("flags.marked", (base.flags & kRudMarked) != 0)
      .Add("flags.answers_read", (base.flags & kRudAnswersRead) != 0)
      .Add("flags.fifo", (base.flags & kRudToFifo) != 0)
      .Add("path", base.path)
      .Add("notify.unknown", base.notify >> 3)
      .Add("notify.third", (base.notify & kRudNotifyThird) != 0)
      .Add("notify.target", (base.notify & kRudNotifyTarget) != 0)
      .Add("notify.source", (base.notify & kRudNotifySource) != 0)
      .Add("job", base.job.value())
      .Add("key", base.key.value())
      .Add("window", base.window.value() & kWindowMask)
      .Add("source_window", base.source_window.value() & kWindowMask)
      .Add("payload_bytes", base.payload_bytes.value());
}

void AddData(const RudData& data, bool is_list, Text& text) {
  if (!is_list) text.Pvo("pvo", data.pvo.value());
  text.Add("total", data.total.value())
      .Add("offset", data.offset.value())
      .Add("stride", data.stride.value())
      .Add("number", data.number)
      .Context("source", data.source);
}

void AddRead(const RudRead& read, Text& text) {
  text.Pvo("source_pvo", read.source_pvo.value())
      .Pvo("target_pvo", read.target_pvo.value())
      .Add("total", read.total.value())
      .Add("stride", read.stride.value())
      .Context("target", read.target)
      .AddMask("packets", read.packets.value());
}

void AddThird(const RudThird& third, Text& text) {
  text.Add("third.address", Hex(third.address.bytes.data(), 16))
      .Add("third.window", third.window.value() & kWindowMask)
      .Context("third.context", third.context);
}

void AddNotice(const RudNotice& notice, Text& text) {
  text.Context("notice.sender", notice.sender)
      .Add("notice.reason", notice.reason)
      .AddMask("notice.arrived", notice.arrived.value())
      .Pvo("notice.pvo", notice.pvo.value());
}

void AddCompletion(const RudCompletion& completion, Text& text) {
  text.Context("completion.source", completion.source)
      .Tid("completion.tid", completion.tid.value())
      .Add("completion.status", completion.status)
      .Add("completion.path", completion.path);
}

void AddWrite(const RudListEntry& write, Text& text) {
  const uint16_t bytes = write.bytes.value();
  text.Pvo("write.pvo", write.pvo.value()).Add("write.bytes", bytes);
  if (bytes != 0) text.Add("write.data", Hex(write.data(), bytes));
}

void AddHeaders(const RudPacket& packet, Text& text) {
  const RudType type = packet.type;
  if (type == RudType::kFifo) {
    text.Add("tag", Hex(packet.tag().bytes, sizeof(RudTag)));
    return;
  }
  if (type == RudType::kCompletion) return;
  text.Context("context", packet.transfer().context)
      .Tid("tid", packet.transfer().tid.value());
  if (type == RudType::kData || type == RudType::kThirdData) {
    AddData(packet.data(), IsList(packet), text);
  }
  if (type == RudType::kReadRequest || type == RudType::kThirdReadRequest) {
    AddRead(packet.read(), text);
  }
  if (type == RudType::kThirdData || type == RudType::kThirdReadRequest) {
    AddThird(packet.third(), text);
  }
  if (type == RudType::kNotice) AddNotice(packet.notice(), text);
  if (type == RudType::kStateRequest) text.Context("asker", packet.asker());
}

std::string Describe(const RudPacket& packet) {
  Text text;
  AddBase(*packet.base, text);
  AddHeaders(packet, text);
  if (packet.type == RudType::kCompletion) {
    for (uint32_t i = 0; i < packet.completions(); ++i) {
      AddCompletion(packet.completion(i), text);
    }
  } else if (IsList(packet)) {
    for (const RudListEntry* write : WritesOf(packet)) AddWrite(*write, text);
  } else if (packet.payload_bytes != 0) {
    text.Add("payload", Hex(packet.payload, packet.payload_bytes));
  }
  uint32_t crc;
  std::memcpy(&crc, packet.payload + packet.payload_bytes, sizeof(crc));
  text.Add("crc", crc);
  return text.text();
}

// Builds a packet from values, field by field. What is reserved becomes 0.
class Builder {
 public:
  explicit Builder(const RudPacket& of) {
    RudBase base;
    base.SetType(of.type);
    base.flags = of.base->flags;
    base.path = of.base->path;
    base.notify = of.base->notify;
    base.job = Be<uint32_t>(of.base->job.value());
    base.key = Be<uint32_t>(of.base->key.value());
    base.window = Window(of.base->window);
    base.source_window = Window(of.base->source_window);
    base.payload_bytes = Be<uint16_t>(static_cast<uint16_t>(of.payload_bytes));
    Add(base);
    AddHeaders(of);
    if (of.type == RudType::kCompletion) {
      for (uint32_t i = 0; i < of.completions(); ++i) Entry(of.completion(i));
    } else if (IsList(of)) {
      for (const RudListEntry* write : WritesOf(of)) Write(*write);
    } else {
      bytes_.insert(bytes_.end(), of.payload, of.payload + of.payload_bytes);
    }
  }
  Bytes WithCrc(Crc32c addresses) {
    uint8_t crc[kRudCrcBytes];
    addresses.Add(bytes_).Store(crc);
    bytes_.insert(bytes_.end(), crc, crc + sizeof(crc));
    return bytes_;
  }

 private:
  template <typename H>
  void Add(const H& header) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(header));
  }
  static Be<uint32_t> Window(Be<uint32_t> window) {
    return Be<uint32_t>(window.value() & kWindowMask);
  }
  static RudContext Context(const RudContext& of) {
    return {Be<uint32_t>(of.number.value()), Be<uint32_t>(of.key.value())};
  }
  void AddHeaders(const RudPacket& of) {
    const RudType type = of.type;
    if (type == RudType::kFifo) Add(of.tag());
    if (type == RudType::kFifo || type == RudType::kCompletion) return;
    Add(RudTransfer{Context(of.transfer().context),
                    Be<uint64_t>(of.transfer().tid.value())});
    if (type == RudType::kData || type == RudType::kThirdData) {
      Data(of.data(), IsList(of));
    }
    if (type == RudType::kReadRequest || type == RudType::kThirdReadRequest) {
      Read(of.read());
    }
    if (type == RudType::kThirdData || type == RudType::kThirdReadRequest) {
      Third(of.third());
    }
    if (type == RudType::kNotice) Notice(of.notice());
    if (type == RudType::kStateRequest) Add(Context(of.asker()));
  }
  void Data(const RudData& of, bool is_list) {
    RudData data;
    if (!is_list) data.pvo = Be<uint64_t>(of.pvo.value());
    data.total = Be<uint32_t>(of.total.value());
    data.offset = Be<uint32_t>(of.offset.value());
    data.stride = Be<uint16_t>(of.stride.value());
    data.number = of.number;
    data.source = Context(of.source);
    Add(data);
  }
  void Read(const RudRead& of) {
    RudRead read;
    read.source_pvo = Be<uint64_t>(of.source_pvo.value());
    read.target_pvo = Be<uint64_t>(of.target_pvo.value());
    read.total = Be<uint32_t>(of.total.value());
    read.stride = Be<uint16_t>(of.stride.value());
    read.target = Context(of.target);
    read.packets = Be<uint64_t>(of.packets.value());
    Add(read);
  }
  void Third(const RudThird& of) {
    RudThird third;
    third.address = of.address;
    third.window = Window(of.window);
    third.context = Context(of.context);
    Add(third);
  }
  void Notice(const RudNotice& of) {
    RudNotice notice;
    notice.sender = Context(of.sender);
    notice.reason = of.reason;
    notice.arrived = Be<uint64_t>(of.arrived.value());
    notice.pvo = Be<uint64_t>(of.pvo.value());
    Add(notice);
  }
  void Entry(const RudCompletion& of) {
    RudCompletion entry;
    entry.source = Context(of.source);
    entry.tid = Be<uint64_t>(of.tid.value());
    entry.status = of.status;
    entry.path = of.path;
    Add(entry);
  }
  void Write(const RudListEntry& of) {
    Add(RudListEntry{Be<uint64_t>(of.pvo.value()),
                     Be<uint16_t>(of.bytes.value())});
    bytes_.insert(bytes_.end(), of.data(), of.data() + of.bytes.value());
  }

  Bytes bytes_;
};

struct Golden {
  std::string name;
  std::string fields;  // or the verdict
  Bytes frame;
};

// Each paragraph is a name and the lines of its fields.
std::vector<Golden> ReadGood() {
  std::vector<Golden> list;
  std::istringstream text(ReadText("rud_good.txt"));
  Golden* last = nullptr;
  for (std::string line; std::getline(text, line);) {
    if (line.empty()) {
      last = nullptr;
    } else if (last == nullptr) {
      last = &list.emplace_back(Golden{line, "", {}});
    } else {
      last->fields += line + "\n";
    }
  }
  const PcapFile file = ReadPcap(std::string(kFolder) + "rud_good.pcap");
  EXPECT_EQ(file.error, "");
  EXPECT_EQ(file.frames.size(), list.size());
  for (size_t i = 0; i < std::min(file.frames.size(), list.size()); ++i) {
    list[i].frame = file.frames[i];
  }
  return list;
}

// Each line is "name: verdict, expert item".
std::vector<Golden> ReadBad() {
  const PcapFile file = ReadPcap(std::string(kFolder) + "rud_bad.pcap");
  EXPECT_EQ(file.error, "");
  std::vector<Golden> list;
  std::istringstream text(ReadText("rud_bad.txt"));
  for (std::string line; std::getline(text, line);) {
    const size_t colon = line.rfind(':');
    const std::string verdict = line.substr(colon + 2);
    const size_t i = list.size();
    if (i == file.frames.size()) break;
    list.push_back(
        {line, verdict.substr(0, verdict.find(',')), file.frames[i]});
  }
  EXPECT_EQ(file.frames.size(), list.size());
  return list;
}

TEST(RudGoldenTest, EveryFieldOfAGoodPacketIsTheReferences) {
  const std::vector<Golden> goldens = ReadGood();
  ASSERT_GE(goldens.size(), 100u);
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(golden.name);
    FrameView view;
    ASSERT_EQ(ParseFrame(golden.frame.data(), golden.frame.size(), view),
              RxVerdict::kRud);
    RudPacket packet;
    ASSERT_EQ(ParseRud(view.payload, view.payload_bytes, packet),
              RxVerdict::kAccept);
    EXPECT_EQ(Describe(packet), golden.fields);
    EXPECT_TRUE(RudCrcHolds(RudCrcOfAddresses(view.src, view.dst),
                            view.payload_span()));
    EXPECT_EQ(view.vlan != nullptr,
              golden.name.find("with a tag") != std::string::npos);
    EXPECT_EQ(view.ipv6(), golden.name.find("IPv6", golden.name.rfind(',')) !=
                               std::string::npos);
  }
}

TEST(RudGoldenTest, TheFieldsGiveTheSameBytesAgain) {
  constexpr char kReserved[] = " with reserved bits";
  std::map<std::string, Bytes> without;
  size_t reserved = 0;
  for (const Golden& golden : ReadGood()) {
    SCOPED_TRACE(golden.name);
    FrameView view;
    ASSERT_EQ(ParseFrame(golden.frame.data(), golden.frame.size(), view),
              RxVerdict::kRud);
    RudPacket packet;
    ASSERT_EQ(ParseRud(view.payload, view.payload_bytes, packet),
              RxVerdict::kAccept);
    const Bytes before(view.payload, view.payload + view.payload_bytes);
    const Bytes again =
        Builder(packet).WithCrc(RudCrcOfAddresses(view.src, view.dst));
    if (golden.name.find(kReserved) != std::string::npos) {
      // The bits are ignored, so they are lost.
      EXPECT_NE(again, before);
      RudPacket reparsed;
      ASSERT_EQ(
          ParseRud(again.data(), static_cast<uint32_t>(again.size()), reparsed),
          RxVerdict::kAccept);
      const std::string now = Describe(reparsed);
      EXPECT_EQ(now.substr(0, now.rfind("crc")),
                golden.fields.substr(0, golden.fields.rfind("crc")));
      ++reserved;
    } else {
      EXPECT_EQ(again, before);
    }
  }
  EXPECT_GE(reserved, 16u);
}

TEST(RudGoldenTest, AnyFlippedBitInvalidatesTheCrc) {
  for (const Golden& golden : ReadGood()) {
    SCOPED_TRACE(golden.name);
    FrameView view;
    Bytes frame = golden.frame;
    if (frame.size() > 1024) continue;
    ASSERT_EQ(ParseFrame(frame.data(), frame.size(), view), RxVerdict::kRud);
    const Crc32c addresses = RudCrcOfAddresses(view.src, view.dst);
    for (size_t at = view.payload - frame.data(); at < frame.size(); ++at) {
      frame[at] ^= 1 << (at & 7);
      EXPECT_FALSE(RudCrcHolds(addresses, view.payload_span())) << at;
      frame[at] ^= 1 << (at & 7);
    }
    EXPECT_FALSE(RudCrcHolds(RudCrcOfAddresses(view.dst, view.src),
                             view.payload_span()));
  }
}

TEST(RudGoldenTest, ABadPacketGetsItsVerdict) {
  const std::vector<Golden> goldens = ReadBad();
  ASSERT_GE(goldens.size(), 80u);
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(golden.name);
    FrameView view;
    ASSERT_EQ(ParseFrame(golden.frame.data(), golden.frame.size(), view),
              RxVerdict::kRud);
    RudPacket packet;
    const RxVerdict verdict =
        ParseRud(view.payload, view.payload_bytes, packet);
    EXPECT_EQ(kRxVerdictNames[static_cast<size_t>(verdict)], golden.fields);
    if (view.payload_bytes < kRudCrcBytes) continue;
    // Each has one fault.
    EXPECT_EQ(
        RudCrcHolds(RudCrcOfAddresses(view.src, view.dst), view.payload_span()),
        verdict != RxVerdict::kAccept);
  }
}

TEST(RudGoldenTest, APacketThatIsCutIsRefusedAtEveryLength) {
  for (const Golden& golden : ReadGood()) {
    SCOPED_TRACE(golden.name);
    FrameView view;
    ASSERT_EQ(ParseFrame(golden.frame.data(), golden.frame.size(), view),
              RxVerdict::kRud);
    const uint32_t headers = RudHeaderBytes(view.payload[0] & 0x0f);
    for (uint32_t bytes = 0; bytes < view.payload_bytes; ++bytes) {
      // So that a sanitizer sees an access after the end.
      const Bytes cut(view.payload, view.payload + bytes);
      RudPacket packet;
      EXPECT_EQ(ParseRud(cut.data(), bytes, packet),
                bytes < headers + kRudCrcBytes ? RxVerdict::kTruncated
                                               : RxVerdict::kRudMalformed)
          << bytes;
    }
  }
}

// The packets of a transfer, listed one after the other.
struct Placed {
  uint32_t offset;
  uint32_t bytes;
};
std::vector<Placed> PacketsOf(uint32_t total, uint32_t stride) {
  std::vector<Placed> list;
  uint32_t offset = 0;
  do {
    const uint32_t left = total - offset;
    list.push_back({offset, left < stride ? left : stride});
    offset += list.back().bytes;
  } while (offset < total);
  return list;
}

TEST(RudRulesTest, ADataPacketFitsIfItIsOneOfItsTransfer) {
  for (uint32_t stride = 1; stride <= 6; ++stride) {
    for (uint32_t total = 0; total <= 14; ++total) {
      const std::vector<Placed> packets = PacketsOf(total, stride);
      ASSERT_EQ(RudPackets(total, stride), packets.size());
      for (uint32_t number = 0; number <= 16; ++number) {
        for (uint32_t offset = 0; offset <= 16; ++offset) {
          for (uint32_t bytes = 0; bytes <= 8; ++bytes) {
            const bool fits = number < packets.size() &&
                              packets[number].offset == offset &&
                              packets[number].bytes == bytes;
            ASSERT_EQ(RudDataFits(total, offset, stride, number, bytes), fits)
                << total << " " << offset << " " << stride << " " << number
                << " " << bytes;
          }
        }
      }
    }
  }
}

TEST(RudRulesTest, ATransferHasAtMost64Packets) {
  for (uint32_t stride : {1u, 2u, 3u, 1024u, 65535u}) {
    for (uint32_t total = 62 * stride; total <= 66 * stride;
         total += stride > 3 ? stride / 2 : 1) {
      const std::vector<Placed> packets = PacketsOf(total, stride);
      for (uint32_t number = 0; number < packets.size(); ++number) {
        const Placed& at = packets[number];
        ASSERT_EQ(RudDataFits(total, at.offset, stride, number, at.bytes),
                  packets.size() <= 64)
            << total << " " << stride << " " << number;
      }
    }
  }
}

TEST(RudRulesTest, AStrideOfZeroNeverFits) {
  for (uint32_t total = 0; total <= 4; ++total) {
    for (uint32_t number = 0; number <= 2; ++number) {
      for (uint32_t bytes = 0; bytes <= 4; ++bytes) {
        EXPECT_FALSE(RudDataFits(total, 0, 0, number, bytes));
      }
    }
  }
}

TEST(RudRulesTest, ALargeTotalNeverWraps) {
  constexpr uint32_t kLargest = 0xffffffff;
  for (uint32_t total = kLargest - 70000; total > kLargest - 70100; --total) {
    EXPECT_FALSE(RudDataFits(total, 0, 65535, 0, 65535));
  }
  EXPECT_FALSE(RudDataFits(kLargest, 0, 65535, 0, 65535));
  EXPECT_FALSE(RudDataFits(kLargest, 63 * 65535, 65535, 63, 65535));
}

// A read request of each mask of at most two packets, and its neighbours.
TEST(RudRulesTest, AReadWantsOnlyPacketsOfItsTransfer) {
  struct {
    RudBase base;
    RudTransfer transfer;
    RudRead read;
    uint8_t crc[kRudCrcBytes] = {};
  } request;
  request.base.SetType(RudType::kReadRequest);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&request);
  request.read.stride = Be<uint16_t>(3);
  for (uint32_t total = 0; total <= 66 * 3; ++total) {
    request.read.total = Be<uint32_t>(total);
    const size_t packets = PacketsOf(total, 3).size();
    for (uint32_t a = 0; a < 64; ++a) {
      for (uint32_t b = a; b < 64; ++b) {
        request.read.packets =
            Be<uint64_t>(uint64_t{1} << a | uint64_t{1} << b);
        RudPacket out;
        const bool fits = packets <= 64 && b < packets;
        ASSERT_EQ(ParseRud(bytes, sizeof(request), out),
                  fits ? RxVerdict::kAccept : RxVerdict::kRudMalformed)
            << total << " " << a << " " << b;
      }
    }
    request.read.packets = Be<uint64_t>(0);
    RudPacket out;
    ASSERT_EQ(ParseRud(bytes, sizeof(request), out), RxVerdict::kRudMalformed);
  }
}

}  // namespace
}  // namespace urnic::wire
