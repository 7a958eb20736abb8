// Linux' siw as the peer: what we send in its place has the same bytes, and
// what it sends is understood.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fragments.h"
#include "tests/support/iwarp_capture.h"
#include "tests/support/pcap.h"
#include "transport/iwarp/mpa/delimiter.h"
#include "transport/iwarp/mpa/framer.h"
#include "transport/iwarp/mpa/negotiation.h"

namespace urnic::mpa {
namespace {

using urnic::testing::HostFrames;
using urnic::testing::IwarpCapture;
using urnic::testing::IwarpUnit;
using Bytes = std::vector<uint8_t>;
using Kind = IwarpUnit::Kind;

constexpr Time kNow = Time::FromNs(1);

// How siw was configured on both sides.
struct Capture {
  const char* name;
  uint8_t revision = 2;
  bool crc = true;
  bool peer_to_peer = false;
  bool rejected = false;
  uint16_t depth = 1;
};

constexpr Capture kCaptures[] = {
    {.name = "siw_rping_crc"},
    {.name = "siw_rping_nocrc", .crc = false},
    {.name = "siw_rping_mpa_rev1", .revision = 1, .crc = false},
    {.name = "siw_rping_p2p_rtr", .crc = false, .peer_to_peer = true},
    {.name = "siw_ucmatose_nocrc", .crc = false},
    {.name = "siw_ops_crc", .depth = 4},
    {.name = "siw_ops_nocrc", .crc = false, .depth = 4},
    {.name = "siw_term_toolong", .depth = 4},
    {.name = "siw_reject_app", .rejected = true, .depth = 4},
};

class SiwTest : public ::testing::TestWithParam<Capture> {
 protected:
  SiwTest() {
    const std::string name = GetParam().name;
    const auto file =
        urnic::testing::ReadPcap("transport/wire/testdata/" + name + ".pcap");
    EXPECT_EQ(file.error, "");
    capture_ = urnic::testing::ReadIwarpCapture(file);
    EXPECT_EQ(capture_.error, "");
  }
  const Bytes& First(Kind kind) const {
    return std::ranges::find(capture_.units, kind, &IwarpUnit::kind)->bytes;
  }
  SetupOptions Options() const {
    SetupOptions options;
    options.revision = GetParam().revision;
    options.crc = GetParam().crc;
    options.peer_to_peer = GetParam().peer_to_peer;
    // siw has no empty FPDU.
    options.rtr_kinds = kRtrWrite | kRtrRead;
    options.ird = options.ord = GetParam().depth;
    return options;
  }
  void ExpectAgreement(const Agreement& agreement) const {
    EXPECT_EQ(agreement.revision, GetParam().revision);
    EXPECT_EQ(agreement.crc, GetParam().crc);
    EXPECT_FALSE(agreement.send_markers);
    EXPECT_EQ(agreement.depths_agreed, GetParam().revision == 2);
    EXPECT_EQ(agreement.ird, GetParam().depth);
    EXPECT_EQ(agreement.ord, GetParam().depth);
    EXPECT_EQ(agreement.rtr, GetParam().peer_to_peer ? kRtrWrite : kRtrNone);
  }

  IwarpCapture capture_;
};

//= RFC 5044 7.1.1, RFC 6581 6, RFC 6581 9
TEST_P(SiwTest, OurRequestIsSiwsAndItsReplyIsUnderstood) {
  Initiator initiator(Options());
  Bytes request(kMaxSetupBytes);
  request.resize(initiator.Start({}, kNow, request));
  EXPECT_EQ(request, First(Kind::kRequest));
  const Bytes& reply = First(Kind::kReply);
  EXPECT_EQ(initiator.OnBytes(reply).bytes, reply.size());
  if (GetParam().rejected) {
    EXPECT_EQ(initiator.state(), Initiator::State::kRejected);
    return;
  }
  ASSERT_EQ(initiator.state(), Initiator::State::kAgreed);
  ExpectAgreement(initiator.agreement());
}

//= RFC 5044 7.1.1, RFC 6581 6, RFC 6581 9
TEST_P(SiwTest, OurReplyToSiwsRequestIsSiws) {
  Responder responder(Options(), kNow);
  EXPECT_EQ(responder.OnBytes(First(Kind::kRequest)).verdict,
            RxVerdict::kAccept);
  ASSERT_EQ(responder.state(), Responder::State::kRequested);
  Bytes reply(kMaxSetupBytes);
  reply.resize(GetParam().rejected ? responder.Reject({}, reply)
                                   : responder.Accept({}, kNow, reply));
  EXPECT_EQ(reply, First(Kind::kReply));
  if (!GetParam().rejected) ExpectAgreement(responder.agreement());
}

//= RFC 5044 4.1, RFC 5044 4.4
TEST_P(SiwTest, OurFpdusAreSiws) {
  for (const IwarpUnit& unit : capture_.units) {
    if (unit.kind != Kind::kFpdu) continue;
    const Bytes ulpdu = unit.ulpdu();
    const FpduShape shape{.ulpdu_bytes = static_cast<uint32_t>(ulpdu.size())};
    ASSERT_EQ(shape.wire_bytes(), unit.bytes.size());
    Bytes built(unit.bytes.size());
    WriteFpdu(shape, GetParam().crc, 0, built,
              [&](uint32_t at, std::span<uint8_t> to) {
                std::copy_n(ulpdu.begin() + at, to.size(), to.begin());
              });
    EXPECT_EQ(built, unit.bytes);
    // siw fills segments of 1448 bytes.
    EXPECT_LE(ulpdu.size(), Mulpdu(1448, false));
  }
}

struct Recorder {
  bool OnUlpdu(const Ulpdu& ulpdu) {
    Bytes bytes;
    for (const Piece piece : ulpdu.pieces) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    ulpdus.push_back(bytes);
    return true;
  }
  std::vector<Bytes> ulpdus;
};

TEST_P(SiwTest, ItsFpdusAreDelimitedInSegmentsOfAnySize) {
  for (const bool initiator : {false, true}) {
    Bytes stream;
    std::vector<Bytes> expected;
    for (const IwarpUnit& unit : capture_.units) {
      if (unit.kind != Kind::kFpdu || unit.from_initiator != initiator)
        continue;
      stream.insert(stream.end(), unit.bytes.begin(), unit.bytes.end());
      expected.push_back(unit.ulpdu());
    }
    for (const size_t segment : {100u, 1000u, 65536u}) {
      HostFrames frames;
      HeldPieces held(100);
      Recorder recorder;
      Delimiter delimiter({.crc = GetParam().crc}, &held, &frames);
      for (size_t at = 0; at < stream.size(); at += segment) {
        const size_t n = std::min(segment, stream.size() - at);
        const auto part = std::span(stream).subspan(at, n);
        const uint32_t taken = frames.Give(
            Bytes(part.begin(), part.end()), [&](const ReceivedFrame& frame) {
              return delimiter.OnBytes(frame.bytes, frame, recorder).bytes;
            });
        ASSERT_EQ(taken, n);
        delimiter.ReleaseExecuted();
      }
      EXPECT_EQ(recorder.ulpdus, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, SiwTest, ::testing::ValuesIn(kCaptures),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// siw requires CRCs here, and says so by a reject without depths.
TEST(SiwRefusalTest, ARejectForCrcsIsUnderstood) {
  const auto capture =
      urnic::testing::ReadIwarpCapture(urnic::testing::ReadPcap(
          "transport/wire/testdata/siw_reject_crc_mismatch.pcap"));
  ASSERT_EQ(capture.error, "");
  ASSERT_EQ(capture.units.size(), 2u);
  Initiator initiator{SetupOptions{}};
  Bytes request(kMaxSetupBytes);
  (void)initiator.Start({}, kNow, request);
  EXPECT_EQ(initiator.OnBytes(capture.units[1].bytes).verdict,
            RxVerdict::kAccept);
  EXPECT_EQ(initiator.state(), Initiator::State::kRejected);
  EXPECT_TRUE(initiator.private_data().empty());
}

}  // namespace
}  // namespace urnic::mpa
