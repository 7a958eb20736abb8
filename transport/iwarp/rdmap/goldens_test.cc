// Linux' siw as the peer: in its place we send the same bytes, and what it
// sends is executed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/iwarp_capture.h"
#include "tests/support/pcap.h"
#include "transport/iwarp/rdmap/raw_ulpdu.h"
#include "transport/iwarp/rdmap/rdmap_end.h"

namespace urnic::rdmap::testing {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using urnic::testing::IwarpCapture;
using urnic::testing::IwarpUnit;
using wire::RdmapOpcode;

// A message of siw: its segments, and its payload.
struct Message {
  std::vector<Bytes> ulpdus;
  ddp::ReceivedSegment first;
  Bytes payload;

  RdmapOpcode opcode() const {
    return static_cast<RdmapOpcode>(first.control.opcode());
  }
};

// The messages of one direction of one connection, in order. siw does not mix
// the segments of messages.
std::vector<Message> MessagesOf(const IwarpCapture& capture, size_t connection,
                                bool from_initiator) {
  std::vector<Message> messages;
  bool open = false;
  for (const IwarpUnit& unit : capture.units) {
    if (unit.kind != IwarpUnit::Kind::kFpdu || unit.connection != connection ||
        unit.from_initiator != from_initiator) {
      continue;
    }
    const Bytes ulpdu = unit.ulpdu();
    const std::span<const uint8_t> piece(ulpdu);
    ddp::ReceivedSegment segment;
    EXPECT_FALSE(ddp::ParseSegment({&piece, 1}, segment));
    if (!open) messages.emplace_back().first = segment;
    Message& message = messages.back();
    message.first.pieces = {};
    message.ulpdus.push_back(ulpdu);
    message.payload.insert(message.payload.end(),
                           ulpdu.begin() + segment.header_bytes, ulpdu.end());
    open = !segment.last();
  }
  if (open) messages.pop_back();  // the capture ends within it
  return messages;
}

// Without the STag of a read's sink, which is our key.
Bytes Comparable(Bytes ulpdu) {
  if ((ulpdu[1] & wire::kRdmapOpcodeMask) ==
      static_cast<uint8_t>(RdmapOpcode::kReadRequest)) {
    std::fill_n(ulpdu.begin() + sizeof(wire::DdpUntagged), 4, 0);
  }
  return ulpdu;
}

void SetStag(Bytes& ulpdu, size_t at, uint32_t stag) {
  const wire::Be<uint32_t> value(stag);
  std::memcpy(ulpdu.data() + at, &value, sizeof(value));
}

wire::RdmapReadRequest ReadOf(const Message& message) {
  wire::RdmapReadRequest read;
  std::memcpy(&read, message.payload.data(), sizeof(read));
  return read;
}

class SiwTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr size_t kData = 0;
  static constexpr size_t kSink = 256 * 1024;

  SiwTest() {
    const auto file = urnic::testing::ReadPcap(
        std::string("transport/wire/testdata/") + GetParam() + ".pcap");
    EXPECT_EQ(file.error, "");
    capture_ = urnic::testing::ReadIwarpCapture(file);
    EXPECT_EQ(capture_.error, "");
  }

  // Posts the request that gives this message. False: it belongs to none.
  bool Post(RdmapEnd& end, const Message& message) {
    const auto bytes = static_cast<uint32_t>(message.payload.size());
    std::copy(message.payload.begin(), message.payload.end(),
              end.host().bytes(kData, bytes).begin());
    SendWr wr = {.wr_id = 1, .sges = {end.Sge(kData, bytes)}};
    switch (message.opcode()) {
      case RdmapOpcode::kSendSolicited:
      case RdmapOpcode::kSendSolicitedInvalidate:
        wr.flags |= URNIC_SEND_SOLICITED;
        [[fallthrough]];
      case RdmapOpcode::kSend:
      case RdmapOpcode::kSendInvalidate:
        wr.opcode =
            message.first.stag == 0 ? URNIC_WR_SEND : URNIC_WR_SEND_WITH_INV;
        wr.imm_or_key = message.first.stag;
        break;
      case RdmapOpcode::kWrite:
        wr.opcode = URNIC_WR_RDMA_WRITE;
        wr.remote_addr = message.first.offset;
        wr.rkey = message.first.stag;
        break;
      case RdmapOpcode::kReadRequest: {
        const wire::RdmapReadRequest read = ReadOf(message);
        wr.opcode = URNIC_WR_RDMA_READ;
        wr.remote_addr = read.source_offset.value();
        wr.rkey = read.source_stag.value();
        sink_ =
            end.host().RegisterAt(kPd, kSink, read.bytes.value(),
                                  mem::kLocalWrite, read.sink_offset.value());
        wr.sges = {{read.sink_offset.value(), read.bytes.value(), sink_}};
        break;
      }
      default:
        return false;
    }
    return end.Send(wr);
  }

  // Lets a read of `end` end.
  void AnswerRead(RdmapEnd& end, const Message& message) {
    const wire::RdmapReadRequest read = ReadOf(message);
    end.Receive(Raw(RawTagged{.opcode = RdmapOpcode::kReadResponse,
                              .stag = sink_,
                              .offset = read.sink_offset.value(),
                              .payload = read.bytes.value()}));
    end.host().Deregister(sink_);
  }

  IwarpCapture capture_;
  uint32_t sink_ = 0;
};

//= RFC 5041 4.2
//= RFC 5041 4.3
//= RFC 5040 4.4
TEST_P(SiwTest, OurRequestsHaveTheBytesOfSiw) {
  size_t compared = 0;
  for (const bool initiator : {true, false}) {
    RdmapEnd end;
    for (const Message& message : MessagesOf(capture_, 0, initiator)) {
      if (!Post(end, message)) continue;
      end.SetMulpdu(std::max<uint32_t>(
          ddp::kMinMulpdu, static_cast<uint32_t>(message.ulpdus[0].size())));
      const std::vector<Bytes> ours = end.Transmit();
      ASSERT_EQ(ours.size(), message.ulpdus.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(Comparable(ours[i]), Comparable(message.ulpdus[i]));
        ++compared;
      }
      end.Ack();
      if (message.opcode() == RdmapOpcode::kReadRequest) {
        AnswerRead(end, message);
      }
      EXPECT_THAT(end.sent, SizeIs(1));
      end.sent.clear();
    }
  }
  EXPECT_GT(compared, 0u);
}

// The keys are those of our table; nothing else is changed.
TEST_P(SiwTest, RequestsOfSiwAreExecuted) {
  for (const bool initiator : {true, false}) {
    RdmapEnd end;
    for (const Message& message : MessagesOf(capture_, 0, initiator)) {
      const auto bytes = static_cast<uint32_t>(message.payload.size());
      std::vector<Bytes> ulpdus = message.ulpdus;
      const std::span<uint8_t> data = end.host().bytes(kData, bytes);
      std::fill(data.begin(), data.end(), 0);
      end.received.clear();
      switch (message.opcode()) {
        case RdmapOpcode::kSend:
        case RdmapOpcode::kSendSolicited:
          end.Recv(7, {end.Sge(kData, bytes)});
          end.Receive(ulpdus);
          EXPECT_THAT(end.received, SizeIs(1));
          EXPECT_EQ(end.Read(kData, bytes), message.payload);
          break;
        case RdmapOpcode::kWrite: {
          const uint32_t key = end.host().RegisterAt(
              kPd, kData, bytes, kAllRights, message.first.offset);
          for (Bytes& ulpdu : ulpdus) SetStag(ulpdu, 2, key);
          end.Receive(ulpdus);
          EXPECT_EQ(end.Read(kData, bytes), message.payload);
          end.host().Deregister(key);
          break;
        }
        case RdmapOpcode::kReadRequest: {
          const wire::RdmapReadRequest read = ReadOf(message);
          const uint32_t key =
              end.host().RegisterAt(kPd, kData, read.bytes.value(), kAllRights,
                                    read.source_offset.value());
          SetStag(ulpdus[0], sizeof(wire::DdpUntagged) + 16, key);
          end.Receive(ulpdus);
          const std::vector<Bytes> answer = end.Transmit();
          ASSERT_FALSE(answer.empty());
          EXPECT_EQ(answer[0][1], 0x42);
          EXPECT_TRUE(std::equal(answer[0].begin() + 2, answer[0].begin() + 14,
                                 ulpdus[0].begin() + 18));
          end.host().Deregister(key);
          break;
        }
        default:
          continue;
      }
      EXPECT_THAT(end.verdicts, Each(RxVerdict::kAccept));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Captures, SiwTest,
    ::testing::Values("siw_rping_crc", "siw_rping_nocrc", "siw_rping_p2p_rtr",
                      "siw_rping_mpa_rev1", "siw_ucmatose_nocrc", "siw_ops_crc",
                      "siw_ops_nocrc", "siw_term_toolong", "siw_term_badread"),
    [](const auto& info) { return std::string(info.param); });

// --- Terminates --------------------------------------------------------------

TEST(SiwTerminateTest, EachIsUnderstood) {
  const struct {
    const char* name;
    ddp::StreamError error;
  } kCaptures[] = {
      {"siw_term_badread", ddp::kSourceStag},
      {"siw_term_readbounds", ddp::kSourceBounds},
      {"siw_term_badwrite", ddp::kInvalidStag},
      {"siw_term_bounds", ddp::kBounds},
      {"siw_term_norecv", ddp::kNoBuffer},
      // siw has a code for this, but does not use it.
      {"siw_term_toolong", ddp::kNoBuffer},
  };
  for (const auto& wanted : kCaptures) {
    SCOPED_TRACE(wanted.name);
    const IwarpCapture capture =
        urnic::testing::ReadIwarpCapture(urnic::testing::ReadPcap(
            std::string("transport/wire/testdata/") + wanted.name + ".pcap"));
    const std::vector<Message> sent = MessagesOf(capture, 0, false);
    ASSERT_FALSE(sent.empty());
    ASSERT_EQ(sent.back().opcode(), RdmapOpcode::kTerminate);
    Terminate terminate;
    ASSERT_TRUE(ParseTerminate(sent.back().payload, terminate));
    EXPECT_EQ(terminate.error, wanted.error);
    EXPECT_TRUE(terminate.has_header);
    RdmapEnd end;
    end.Receive(sent.back().ulpdus);
    EXPECT_THAT(end.verdicts, Each(RxVerdict::kTerminateReceived));
    EXPECT_THAT(end.Transmit(), IsEmpty());
  }
}

}  // namespace
}  // namespace urnic::rdmap::testing
