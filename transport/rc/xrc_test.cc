// A target queue pair whose peer names the shared receive queue in each
// request.

#include <gmock/gmock.h>

#include "tests/support/matchers.h"
#include "tests/support/rc_fixture.h"

namespace urnic::rc {
namespace {

using ::testing::ElementsAre;
using testing::IsDone;
using testing::Packet;
using wire::Opcode;

constexpr uint32_t kPd = 1;

class XrcTargetTest : public testing::RcFixture {
 protected:
  static constexpr uint32_t kOne = 0x31;
  static constexpr uint32_t kOther = 0x32;

  XrcTargetTest() { target_.AddSharedRing(kOther, other_); }

  static Packet SendTo(uint32_t srqn, Opcode opcode, uint32_t psn,
                       uint32_t bytes) {
    const std::vector<uint8_t> payload(bytes);
    wire::PacketFields fields;
    fields.opcode =
        static_cast<uint8_t>(opcode) | static_cast<uint8_t>(Opcode::kXrcBase);
    fields.psn = Psn(psn);
    fields.dest_qp = Qpn{0x11};
    fields.srqn = srqn;
    fields.payload = payload;
    return testing::MakePacket(fields);
  }
  bool PostToOne(uint64_t wr_id) {
    return target_.PostRecv({.wr_id = wr_id, .sges = {Sge(0, 1024)}});
  }
  bool PostToOther(uint64_t wr_id) {
    return other_rings_.PostRecv({.wr_id = wr_id, .sges = {Sge(2048, 1024)}});
  }

  testing::FakeRings other_rings_{1, 1, 0, 1, 1};
  RecvRing other_{other_rings_.rq().view(), 1, kPd};
  testing::Endpoint target_{
      host_, {.rq_entries = 1, .max_sge = 1, .xrc = true, .srqn = kOne}};
};

TEST_F(XrcTargetTest, ABurstToTwoQueuesFreesTheEntriesOfBoth) {
  target_.Connect(config_);
  ASSERT_TRUE(PostToOne(1));
  ASSERT_TRUE(PostToOther(2));
  (void)target_.Deliver(
      std::vector{SendTo(kOne, Opcode::kRcSendOnly, 200, 8),
                  SendTo(kOther, Opcode::kRcSendOnly, 201, 8)},
      now_);
  EXPECT_THAT(target_.completions(), ElementsAre(IsDone(1u, URNIC_WC_SUCCESS),
                                                 IsDone(2u, URNIC_WC_SUCCESS)));
  EXPECT_TRUE(PostToOne(3));
  EXPECT_TRUE(PostToOther(4));
}

TEST_F(XrcTargetTest, AMessageMayNotChangeItsQueue) {
  target_.Connect(config_);
  ASSERT_TRUE(PostToOne(1));
  ASSERT_TRUE(PostToOther(2));
  const auto verdicts =
      target_.Deliver(std::vector{SendTo(kOne, Opcode::kRcSendFirst, 200, 256),
                                  SendTo(kOther, Opcode::kRcSendLast, 201, 8)},
                      now_);
  EXPECT_THAT(verdicts,
              ElementsAre(RxVerdict::kAccept, RxVerdict::kInvalidRequest));
  EXPECT_FALSE(PostToOther(3)) << "what was posted there is there";
}

}  // namespace
}  // namespace urnic::rc
