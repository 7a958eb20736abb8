// Golden bytes from an independent implementation: Linux' TCP and siw. Every
// TCP segment is parsed into fields, and built again from them; MPA frames and
// FPDUs are delimited, checked and decoded.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/golden.h"
#include "tests/support/iwarp_capture.h"
#include "tests/support/pcap.h"
#include "transport/wire/ddp.h"
#include "transport/wire/frame.h"
#include "transport/wire/mpa.h"
#include "transport/wire/pretty.h"
#include "transport/wire/tcp.h"

namespace urnic::wire {
namespace {

using ::urnic::testing::IwarpCapture;
using ::urnic::testing::IwarpUnit;
using ::urnic::testing::PcapFile;
using ::urnic::testing::ReadIwarpCapture;
using ::urnic::testing::ReadPcap;
using Bytes = std::vector<uint8_t>;
using Kind = IwarpUnit::Kind;

enum class Checksums { kRight, kLeftToThePort };

struct Capture {
  const char* name;
  size_t segments;
  size_t mpa_frames;
  size_t fpdus;
  Checksums checksums = Checksums::kRight;
};

// Another program (tshark) counted the segments, frames and FPDUs.
constexpr Capture kCaptures[] = {
    {"siw_offloads_on", 146, 4, 92, Checksums::kLeftToThePort},
    {"siw_ops_crc", 85, 2, 48},
    {"siw_ops_nocrc", 98, 2, 48},
    {"siw_refused_nolistener", 2, 0, 0},
    {"siw_reject_app", 10, 2, 0},
    {"siw_reject_crc_mismatch", 10, 2, 0},
    {"siw_rping_crc", 26, 2, 14},
    {"siw_rping_mpa_rev1", 11, 2, 1},
    {"siw_rping_nocrc", 26, 2, 14},
    {"siw_rping_p2p_rtr", 28, 2, 15},
    {"siw_term_badread", 17, 2, 4},
    {"siw_term_badwrite", 16, 2, 4},
    {"siw_term_bounds", 18, 2, 6},
    {"siw_term_norecv", 18, 2, 6},
    {"siw_term_readbounds", 16, 2, 4},
    {"siw_term_toolong", 18, 2, 6},
    {"siw_ucmatose_nocrc", 31, 2, 12},
    {"user_mpa_peer", 36, 6, 5, Checksums::kLeftToThePort},
};

PcapFile Read(const Capture& capture) {
  return ReadPcap(std::string("transport/wire/testdata/") + capture.name +
                  ".pcap");
}

class SiwCaptureTest : public ::testing::TestWithParam<Capture> {};

//= RFC 9293 3.1, 3.2
//= RFC 7323 2.2, 3.2
//= RFC 2018 3
TEST_P(SiwCaptureTest, EverySegmentParsesAndIsBuiltAgain) {
  const PcapFile file = Read(GetParam());
  ASSERT_EQ(file.error, "");
  size_t segments = 0;
  for (const Bytes& bytes : file.frames) {
    SCOPED_TRACE("frame " + std::to_string(++segments) + ": " +
                 PrettyFrame(bytes));
    FrameView view;
    TcpSegment segment;
    ASSERT_EQ(ParseFrame(bytes.data(), bytes.size(), view), RxVerdict::kTcp);
    const bool verified = GetParam().checksums == Checksums::kLeftToThePort;
    ASSERT_EQ(ParseTcp(view, verified, segment), RxVerdict::kAccept);
    if (verified) {  // the kernel finishes some itself
      TcpSegment same;
      EXPECT_NE(ParseTcp(view, false, same), RxVerdict::kBadTcpChecksum);
    }

    Bytes again(TcpHeaderBytes(segment.options));
    ASSERT_EQ(WriteTcpHeader(segment, again.data()), again.size());
    auto& tcp = *reinterpret_cast<Tcp*>(again.data());
    tcp.checksum =
        Be<uint16_t>(TcpChecksum(view.src, view.dst, again, segment.payload));
    if (verified) {
      tcp.checksum = reinterpret_cast<const Tcp*>(view.payload)->checksum;
    }
    again.insert(again.end(), segment.payload.begin(), segment.payload.end());
    EXPECT_EQ(again, Bytes(view.payload, view.payload + view.payload_bytes));
  }
  EXPECT_EQ(segments, GetParam().segments);
}

// siw stores zero where a CRC is not used.
//= RFC 5044 4.1, 4.4, 7.1.1
TEST_P(SiwCaptureTest, EveryStreamIsMpaFramesAndFpdus) {
  const IwarpCapture capture = ReadIwarpCapture(Read(GetParam()));
  ASSERT_EQ(capture.error, "");
  std::map<size_t, bool> has_crc;  // of a connection: if one end asks for it
  size_t fpdus = 0;
  for (const IwarpUnit& unit : capture.units) {
    SCOPED_TRACE("frame " + std::to_string(unit.frame + 1));
    if (unit.kind != Kind::kFpdu) {
      const auto& frame = *reinterpret_cast<const MpaFrame*>(&unit.bytes[0]);
      has_crc[unit.connection] |= (frame.flags & kMpaCrc) != 0;
      continue;
    }
    ++fpdus;
    const size_t covered = unit.bytes.size() - kFpduCrcBytes;
    const uint8_t* field = &unit.bytes[covered];
    if (has_crc[unit.connection]) {
      Crc32c crc;
      EXPECT_TRUE(crc.Add({unit.bytes.data(), covered}).Matches(field));
    } else {
      EXPECT_EQ(Bytes(field, field + kFpduCrcBytes), Bytes(kFpduCrcBytes));
    }
  }
  EXPECT_EQ(fpdus, GetParam().fpdus);
  EXPECT_EQ(capture.units.size() - fpdus, GetParam().mpa_frames);
}

//= RFC 5041 4.1, 4.2, 4.3
//= RFC 5040 4.1
TEST_P(SiwCaptureTest, EveryUlpduHasTheHeadersOfItsOpcode) {
  const IwarpCapture capture = ReadIwarpCapture(Read(GetParam()));
  for (const IwarpUnit& unit : capture.units) {
    if (unit.kind != Kind::kFpdu) continue;
    const Bytes ulpdu = unit.ulpdu();
    SCOPED_TRACE(PrettyUlpdu(ulpdu));
    ASSERT_GE(ulpdu.size(), sizeof(DdpTagged));
    const auto& control = *reinterpret_cast<const DdpControl*>(ulpdu.data());
    const auto opcode = static_cast<RdmapOpcode>(control.opcode());
    EXPECT_EQ(control.tagged(), opcode == RdmapOpcode::kWrite ||
                                    opcode == RdmapOpcode::kReadResponse);
    const DdpControl again =
        DdpControl::Make(control.tagged(), control.last(), opcode);
    EXPECT_EQ(again.ddp, control.ddp);
    EXPECT_EQ(again.rdmap, control.rdmap);
    if (control.tagged()) continue;
    ASSERT_GE(ulpdu.size(), sizeof(DdpUntagged));
    const auto& untagged = *reinterpret_cast<const DdpUntagged*>(ulpdu.data());
    const bool read = opcode == RdmapOpcode::kReadRequest;
    const bool terminate = opcode == RdmapOpcode::kTerminate;
    EXPECT_EQ(untagged.queue.value(), read        ? kReadRequestQueue
                                      : terminate ? kTerminateQueue
                                                  : kSendQueue);
    EXPECT_GE(untagged.msn.value(), 1u);
    if (read) {
      EXPECT_EQ(ulpdu.size(), sizeof(untagged) + sizeof(RdmapReadRequest));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Siw, SiwCaptureTest, ::testing::ValuesIn(kCaptures),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// Short captures also as checked-in text, for people to read.
class ShortSiwCaptureTest : public SiwCaptureTest {};

std::vector<Capture> ShortOnes() {
  constexpr size_t kShort = 50;
  std::vector<Capture> list;
  for (const Capture& capture : kCaptures) {
    if (capture.segments <= kShort) list.push_back(capture);
  }
  return list;
}

//= RFC 6581 6, 9
//= RFC 5040 4.4, 4.8
TEST_P(ShortSiwCaptureTest, DecodesToTheGoldenText) {
  const PcapFile file = Read(GetParam());
  const IwarpCapture capture = ReadIwarpCapture(file);
  std::string text;
  auto unit = capture.units.begin();
  for (size_t i = 0; i < file.frames.size(); ++i) {
    text += PrettyFrame(file.frames[i]) + "\n";
    for (; unit != capture.units.end() && unit->frame == i; ++unit) {
      text += "  " + (unit->kind == Kind::kFpdu ? PrettyUlpdu(unit->ulpdu())
                                                : PrettyMpaFrame(unit->bytes));
      text += "\n";
    }
  }
  ::urnic::testing::ExpectGolden(
      std::string("transport/wire/testdata/") + GetParam().name + ".txt", text);
}

INSTANTIATE_TEST_SUITE_P(Siw, ShortSiwCaptureTest,
                         ::testing::ValuesIn(ShortOnes()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace urnic::wire
