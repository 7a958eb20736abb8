#include <gtest/gtest.h>

#include <vector>

#include "tests/support/fake_host.h"
#include "transport/iwarp/ddp/cutter.h"
#include "transport/iwarp/ddp/placer.h"
#include "transport/iwarp/ddp/received_segment.h"
#include "transport/iwarp/ddp/source.h"

namespace urnic::ddp {
namespace {

using Bytes = std::vector<uint8_t>;
using wire::RdmapOpcode;

class Slot : public TxSlot {
 public:
  Slot() { headers = storage_; }
  Bytes bytes() const { return {headers, headers + header_bytes}; }

 private:
  uint8_t storage_[kMaxUlpduHeaderBytes];
};

//= RFC 5041 4.2
TEST(CutterTest, ATaggedHeader) {
  Slot slot;
  WriteTagged(slot, RdmapOpcode::kReadResponse, true, 0x01020304, 0x1122334455);
  EXPECT_EQ(slot.bytes(), (Bytes{0xc1, 0x42, 1, 2, 3, 4, 0, 0, 0, 0x11, 0x22,
                                 0x33, 0x44, 0x55}));
  WriteTagged(slot, RdmapOpcode::kWrite, false, 0, 0);
  EXPECT_EQ(slot.bytes()[0], 0x81);
  EXPECT_EQ(slot.bytes()[1], 0x40);
}

//= RFC 5041 4.3
TEST(CutterTest, AnUntaggedHeader) {
  Slot slot;
  WriteUntagged(slot, {.opcode = RdmapOpcode::kSendInvalidate,
                       .last = true,
                       .queue = 1,
                       .msn = 2,
                       .offset = 0x300,
                       .stag = 0x0a0b0c0d});
  EXPECT_EQ(slot.bytes(), (Bytes{0x41, 0x44, 0xa, 0xb, 0xc, 0xd, 0, 0, 0, 1, 0,
                                 0, 0, 2, 0, 0, 3, 0}));
}

//= RFC 5041 5.2
TEST(CutterTest, ASegmentFitsTheMulpdu) {
  EXPECT_EQ(PayloadBytes(10, 18, 128), 10u);
  EXPECT_EQ(PayloadBytes(110, 18, 128), 110u);
  EXPECT_EQ(PayloadBytes(111, 18, 128), 110u);
  EXPECT_EQ(PayloadBytes(1u << 31, 14, 16000), kMaxPayloadBytes);
}

TEST(SourceTest, NamesEverySegment) {
  for (const Source source :
       {Source{}, Source{SourceKind::kAnswer, 0xffff, 0xffffffff, 0x3fff},
        Source{SourceKind::kControl, 1, 2, 3}}) {
    EXPECT_EQ(Source::Unpack(source.Pack()), source);
  }
  EXPECT_EQ((Source{.index = 2}.IndexNear(0x1fffe)), 0x20002u);
  EXPECT_EQ((Source{.index = 0xfffe}.IndexNear(0x20002)), 0x1fffeu);
  EXPECT_EQ((Source{.index = 0xffff}.IndexNear(0)), 0xffffffffu);
}

Bytes Untagged(uint32_t msn, uint32_t offset, size_t payload, bool last) {
  Slot slot;
  WriteUntagged(slot, {.last = last, .msn = msn, .offset = offset});
  Bytes ulpdu = slot.bytes();
  for (size_t i = 0; i < payload; ++i) {
    ulpdu.push_back(static_cast<uint8_t>(offset + i));
  }
  return ulpdu;
}

TEST(ReceivedSegmentTest, APayloadInPiecesIsTheSame) {
  const Bytes ulpdu = Untagged(1, 0, 20, true);
  const std::span<const uint8_t> whole(ulpdu);
  for (size_t first = 0; first <= ulpdu.size(); ++first) {
    for (size_t second = 0; second <= ulpdu.size() - first; ++second) {
      const std::span<const uint8_t> pieces[] = {whole.first(first),
                                                 whole.subspan(first, second),
                                                 whole.subspan(first + second)};
      ReceivedSegment segment;
      ASSERT_FALSE(ParseSegment(pieces, segment));
      ASSERT_EQ(segment.payload_bytes, 20u);
      ASSERT_EQ(segment.msn, 1u);
      Bytes copy(20);
      segment.CopyPayload(copy.data(), 20);
      ASSERT_EQ(copy, Bytes(ulpdu.begin() + 18, ulpdu.end()));
      Bytes parts;
      segment.ForPayloadParts(
          7, [&](const uint8_t* data, uint32_t bytes, uint32_t at) {
            ASSERT_EQ(at, parts.size());
            ASSERT_LE(bytes, 7u);
            parts.insert(parts.end(), data, data + bytes);
          });
      ASSERT_EQ(parts, copy);
    }
  }
}

StreamError Check(UntaggedQueue& queue, const Bytes& ulpdu) {
  const std::span<const uint8_t> piece(ulpdu);
  ReceivedSegment segment;
  EXPECT_FALSE(ParseSegment({&piece, 1}, segment));
  const StreamError error = queue.Check(segment);
  if (!error) queue.Advance(segment);
  return error;
}

//= RFC 5041 5.3
TEST(UntaggedQueueTest, MessagesAndSegmentsAreInOrder) {
  UntaggedQueue queue;
  EXPECT_EQ(Check(queue, Untagged(0, 0, 4, true)), kMsnRange);
  EXPECT_EQ(Check(queue, Untagged(2, 0, 4, true)), kMsnRange);
  EXPECT_EQ(Check(queue, Untagged(1, 4, 4, true)), kInvalidOffset);
  EXPECT_EQ(Check(queue, Untagged(1, 0, 4, false)), kNoError);
  EXPECT_EQ(Check(queue, Untagged(1, 0, 4, false)), kInvalidOffset);
  EXPECT_EQ(Check(queue, Untagged(2, 0, 4, false)), kMsnRange);
  EXPECT_EQ(Check(queue, Untagged(1, 4, 0, true)), kNoError);
  EXPECT_EQ(Check(queue, Untagged(2, 0, 4, true)), kNoError);
  EXPECT_EQ(queue.msn(), 3u);
}

//= RFC 5041 7.1
TEST(LocateTest, EachFaultHasItsError) {
  testing::FakeHost host(8192);
  const uint32_t all = mem::kLocalWrite | mem::kRemoteWrite;
  const uint32_t key = host.Register(1, 0, 4096, all);
  const uint32_t foreign = host.Register(2, 0, 4096, all);
  const auto locate = [&](uint32_t stag, uint64_t address, uint32_t rights) {
    uint64_t at = 0;
    const StreamError error =
        Locate(host.mrs(), {.pd = 1, .qpn = 5}, stag, address, 16, rights, at);
    EXPECT_EQ(at, error ? 0 : address);
    return error;
  };
  EXPECT_EQ(locate(key, host.address(4080), mem::kRemoteWrite), kNoError);
  EXPECT_EQ(locate(key, host.address(4081), mem::kRemoteWrite), kBounds);
  EXPECT_EQ(locate(key, UINT64_MAX - 14, mem::kRemoteWrite), kOffsetWrap);
  EXPECT_EQ(locate(key, host.address(0), mem::kRemoteRead), kAccessRights);
  EXPECT_EQ(locate(foreign, host.address(0), mem::kRemoteWrite),
            kStagOfOtherStream);
  EXPECT_EQ(locate(key + 1, host.address(0), mem::kRemoteWrite), kInvalidStag);
}

//= RFC 5040 4.8
TEST(LocateTest, SourcesHaveErrorsOfTheirOwn) {
  EXPECT_EQ(AsSourceError(kInvalidStag), kSourceStag);
  EXPECT_EQ(AsSourceError(kBounds), kSourceBounds);
  EXPECT_EQ(AsSourceError(kStagOfOtherStream), kSourceOfOtherStream);
  EXPECT_EQ(AsSourceError(kOffsetWrap), kSourceWrap);
  EXPECT_EQ(AsSourceError(kAccessRights), kAccessRights);
  EXPECT_EQ(AsSourceError(kNoError), kNoError);
}

}  // namespace
}  // namespace urnic::ddp
