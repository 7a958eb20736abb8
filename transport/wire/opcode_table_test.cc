#include "transport/wire/opcode_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace urnic::wire {
namespace {

// Written from the specification's table 38 and from what tshark prints, not
// from the code: opcode, its full name, and what follows the BTH: d DETH,
// f FETH, r RETH, a AETH, t AtomicETH, k AtomicAckETH, i immediate, v IETH,
// p payload, c the reserved bytes of a CNP.
struct Row {
  uint8_t opcode;
  const char* name;
  const char* headers;
};
constexpr Row kRows[] = {
    {0x00, "RC SEND First", "p"},
    {0x01, "RC SEND Middle", "p"},
    {0x02, "RC SEND Last", "p"},
    {0x03, "RC SEND Last with Immediate", "ip"},
    {0x04, "RC SEND Only", "p"},
    {0x05, "RC SEND Only with Immediate", "ip"},
    {0x06, "RC RDMA WRITE First", "rp"},
    {0x07, "RC RDMA WRITE Middle", "p"},
    {0x08, "RC RDMA WRITE Last", "p"},
    {0x09, "RC RDMA WRITE Last with Immediate", "ip"},
    {0x0a, "RC RDMA WRITE Only", "rp"},
    {0x0b, "RC RDMA WRITE Only with Immediate", "rip"},
    {0x0c, "RC RDMA READ Request", "r"},
    {0x0d, "RC RDMA READ response First", "ap"},
    {0x0e, "RC RDMA READ response Middle", "p"},
    {0x0f, "RC RDMA READ response Last", "ap"},
    {0x10, "RC RDMA READ response Only", "ap"},
    {0x11, "RC Acknowledge", "a"},
    {0x12, "RC ATOMIC Acknowledge", "ak"},
    {0x13, "RC CmpSwap", "t"},
    {0x14, "RC FetchAdd", "t"},
    {0x16, "RC SEND Last with Invalidate", "vp"},
    {0x17, "RC SEND Only with Invalidate", "vp"},
    {0x1c, "RC FLUSH", "fr"},
    {0x1d, "RC ATOMIC WRITE", "rp"},
    {0x20, "UC SEND First", "p"},
    {0x21, "UC SEND Middle", "p"},
    {0x22, "UC SEND Last", "p"},
    {0x23, "UC SEND Last with Immediate", "ip"},
    {0x24, "UC SEND Only", "p"},
    {0x25, "UC SEND Only with Immediate", "ip"},
    {0x26, "UC RDMA WRITE First", "rp"},
    {0x27, "UC RDMA WRITE Middle", "p"},
    {0x28, "UC RDMA WRITE Last", "p"},
    {0x29, "UC RDMA WRITE Last with Immediate", "ip"},
    {0x2a, "UC RDMA WRITE Only", "rp"},
    {0x2b, "UC RDMA WRITE Only with Immediate", "rip"},
    {0x64, "UD SEND Only", "dp"},
    {0x65, "UD SEND Only with Immediate", "dip"},
    {0x81, "CNP CNP", "c"},
    {0xa0, "XRC SEND First", "xp"},
    {0xa1, "XRC SEND Middle", "xp"},
    {0xa2, "XRC SEND Last", "xp"},
    {0xa3, "XRC SEND Last with Immediate", "xip"},
    {0xa4, "XRC SEND Only", "xp"},
    {0xa5, "XRC SEND Only with Immediate", "xip"},
    {0xa6, "XRC RDMA WRITE First", "xrp"},
    {0xa7, "XRC RDMA WRITE Middle", "xp"},
    {0xa8, "XRC RDMA WRITE Last", "xp"},
    {0xa9, "XRC RDMA WRITE Last with Immediate", "xip"},
    {0xaa, "XRC RDMA WRITE Only", "xrp"},
    {0xab, "XRC RDMA WRITE Only with Immediate", "xrip"},
    {0xac, "XRC RDMA READ Request", "xr"},
    {0xad, "XRC RDMA READ response First", "ap"},
    {0xae, "XRC RDMA READ response Middle", "p"},
    {0xaf, "XRC RDMA READ response Last", "ap"},
    {0xb0, "XRC RDMA READ response Only", "ap"},
    {0xb1, "XRC Acknowledge", "a"},
    {0xb2, "XRC ATOMIC Acknowledge", "ak"},
    {0xb3, "XRC CmpSwap", "xt"},
    {0xb4, "XRC FetchAdd", "xt"},
    {0xb6, "XRC SEND Last with Invalidate", "xvp"},
    {0xb7, "XRC SEND Only with Invalidate", "xvp"},
    {0xbc, "XRC FLUSH", "xfr"},
    {0xbd, "XRC ATOMIC WRITE", "xrp"},
};

const std::map<char, size_t> kHeaderBytes = {
    {'d', 8}, {'r', 16}, {'a', 4}, {'t', 28}, {'k', 8}, {'i', 4},
    {'v', 4}, {'x', 4},  {'f', 4}, {'p', 0},  {'c', 16}};

std::string HeadersOf(const OpcodeInfo& info) {
  std::string headers;
  if (info.has_xrceth) headers += 'x';
  if (info.has_deth) headers += 'd';
  if (info.has_feth) headers += 'f';
  if (info.has_reth) headers += 'r';
  if (info.has_aeth) headers += 'a';
  if (info.has_atomic_eth) headers += 't';
  if (info.has_atomic_ack_eth) headers += 'k';
  if (info.has_imm) headers += 'i';
  if (info.has_ieth) headers += 'v';
  if (info.has_payload) headers += 'p';
  if (info.kind == PacketKind::kCnp) headers += 'c';
  return headers;
}

PacketKind KindOf(const std::string& name) {
  const std::string what = name.substr(name.find(' ') + 1);
  const auto starts = [&what](const char* s) { return what.rfind(s, 0) == 0; };
  if (starts("SEND")) return PacketKind::kSend;
  if (starts("RDMA WRITE")) return PacketKind::kWrite;
  if (starts("RDMA READ Request")) return PacketKind::kReadRequest;
  if (starts("RDMA READ response")) return PacketKind::kReadResponse;
  if (starts("Acknowledge")) return PacketKind::kAck;
  if (starts("ATOMIC Ack")) return PacketKind::kAtomicAck;
  if (starts("ATOMIC WRITE")) return PacketKind::kAtomicWrite;
  if (starts("FLUSH")) return PacketKind::kFlush;
  if (starts("CNP")) return PacketKind::kCnp;
  return PacketKind::kAtomic;
}

//= IBTA 9.2.1
TEST(OpcodeTableTest, EveryRowIsAsTheSpecificationSays) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    const OpcodeInfo& info = InfoOf(row.opcode);
    const std::string name = row.name;
    EXPECT_TRUE(info.valid());
    EXPECT_EQ(std::string(ServiceName(info.service)) + " " + info.name, name);
    EXPECT_EQ(HeadersOf(info), row.headers);
    EXPECT_EQ(info.kind, KindOf(name));
    size_t bytes = 12;
    for (const char* h = row.headers; *h != 0; ++h)
      bytes += kHeaderBytes.at(*h);
    EXPECT_EQ(info.header_bytes, bytes);
    const bool first = name.find(" Middle") == std::string::npos &&
                       name.find(" Last") == std::string::npos;
    const bool last = name.find(" Middle") == std::string::npos &&
                      name.find(" First") == std::string::npos;
    EXPECT_EQ(info.first, first);
    EXPECT_EQ(info.last, last);
  }
}

TEST(OpcodeTableTest, AllOtherOpcodesAreInvalid) {
  std::map<int, const Row*> rows;
  for (const Row& row : kRows) rows[row.opcode] = &row;
  for (int opcode = 0; opcode < 256; ++opcode) {
    const OpcodeInfo& info = InfoOf(static_cast<uint8_t>(opcode));
    if (rows.count(opcode) != 0) continue;
    EXPECT_FALSE(info.valid()) << opcode;
    EXPECT_EQ(info.header_bytes, 0) << opcode;
    const bool named = opcode >= 0x40 && opcode <= 0x55;  // RD
    EXPECT_EQ(info.name != nullptr, named) << opcode;
  }
}

TEST(OpcodeTableTest, TheEnumNamesTheRightRows) {
  EXPECT_STREQ(InfoOf(uint8_t(Opcode::kRcWriteOnlyImm)).token,
               "WRITE_ONLY_IMM");
  EXPECT_STREQ(InfoOf(uint8_t(Opcode::kRcReadResponseOnly)).token,
               "READ_RESPONSE_ONLY");
  EXPECT_STREQ(InfoOf(uint8_t(Opcode::kRcSendOnlyInvalidate)).token,
               "SEND_ONLY_INV");
  EXPECT_STREQ(InfoOf(uint8_t(Opcode::kUdSendOnlyImm)).token, "SEND_ONLY_IMM");
  EXPECT_STREQ(InfoOf(uint8_t(Opcode::kCnp)).token, "CNP");
}

}  // namespace
}  // namespace urnic::wire
