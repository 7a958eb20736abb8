// The objects of a loopback device. Data transfer is tested through libibverbs
// (verbs/provider).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "datapath/engine/network.h"
#include "datapath/port/port.h"
#include "tests/support/alloc_guard.h"
#include "transport/mem/mr_table.h"
#include "verbs/control/cq.h"
#include "verbs/control/device.h"
#include "verbs/control/mr.h"
#include "verbs/control/pd.h"
#include "verbs/control/qp.h"

namespace urnic::control {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kInitMask =
    kQpState | kQpPkeyIndex | kQpPort | kQpAccessFlags;
constexpr uint32_t kRtrMask = kQpState | kQpAv | kQpPathMtu | kQpDestQpn |
                              kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer;
constexpr uint32_t kRtsMask = kQpState | kQpTimeout | kQpRetryCnt |
                              kQpRnrRetry | kQpSqPsn | kQpMaxRdAtomic;

class ControlTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    identities_ = new std::vector<urnic_device_identity>(URNIC_MAX_DEVICES);
    char error[256];
    ASSERT_EQ(
        urnic_device_identity_parse("loop|10.9.0.1/24|mtu=1500", 1,
                                    identities_->data(), error, sizeof(error)),
        1)
        << error;
  }
  void SetUp() override {
    auto device = Device::Open(identities_->front(), {});
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = *std::move(device);
    pd_ = *Pd::Create(*device_);
    cq_ = *Cq::Create(*device_, {.entries = 10});
  }
  void TearDown() override {
    qp_.reset();
    cq_.reset();
    pd_.reset();
    EXPECT_TRUE(device_->is_empty());
  }

  absl::StatusOr<std::shared_ptr<Qp>> MakeQp(const QpCaps& caps) {
    QpRequest request;
    request.send_cq = request.recv_cq = cq_.get();
    request.pd = pd_.get();
    request.caps = caps;
    return Qp::Create(*device_, request);
  }
  std::string CreateError(const QpCaps& caps) {
    const auto qp = MakeQp(caps);
    EXPECT_EQ(qp.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(qp.status().message());
  }
  absl::StatusCode RegisterCode(const void* at, uint64_t bytes,
                                uint32_t access) {
    const uint64_t address = reinterpret_cast<uint64_t>(at);
    return Mr::Register(*pd_, {address, bytes, address, access})
        .status()
        .code();
  }

  // Attributes that take a queue pair to RTS, connected to itself.
  QpAttributes GoodAttributes(QpState state) {
    QpAttributes a;
    a.qp_state = state;
    a.port_num = 1;
    a.path_mtu = 3;
    a.dest_qp_num = qp_ != nullptr ? qp_->qpn() : 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.sgid_index = 3;
    a.ah_attr.dgid = wire::Gid::FromIpv4(0x0a090001u);
    a.max_rd_atomic = a.max_dest_rd_atomic = 4;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    return a;
  }
  void BringUp(QpState target) {
    if (qp_ == nullptr) qp_ = *MakeQp({.max_send_wr = 4, .max_recv_wr = 4});
    const struct {
      QpState state;
      uint32_t mask;
    } kRoad[] = {{QpState::kInit, kInitMask},
                 {QpState::kRtr, kRtrMask},
                 {QpState::kRts, kRtsMask}};
    for (const auto& step : kRoad) {
      if (step.state > target) break;
      const absl::Status s = qp_->Modify(GoodAttributes(step.state), step.mask);
      ASSERT_TRUE(s.ok()) << s.message();
    }
  }
  std::string ModifyError(const QpAttributes& a, uint32_t mask) {
    const absl::Status s = qp_->Modify(a, mask);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << s.message();
    return std::string(s.message());
  }

  static std::vector<urnic_device_identity>* identities_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Pd> pd_;
  std::unique_ptr<Cq> cq_;
  std::shared_ptr<Qp> qp_;
};

std::vector<urnic_device_identity>* ControlTest::identities_ = nullptr;

TEST_F(ControlTest, DomainNumbersAreNotReusedSoonAndLeaveNothing) {
  const auto number = [&] { return (*Pd::Create(*device_))->id(); };
  // Other threads of the device also allocate, some kilobytes each second.
  constexpr size_t kOthers = 64 << 10;
  const uint32_t first = number();
  const size_t before = mallinfo2().uordblks;
  for (uint32_t i = 0; i < 65536; ++i) ASSERT_NE(number(), first) << i;
  // Sanitizers replace the heap.
  if (testing::kGuardSeesMappings) {
    EXPECT_LT(mallinfo2().uordblks, before + kOthers);
  }
}

// The purpose of a thread domain, or of a queue for one thread.
TEST_F(ControlTest, OneThreadNeedsNoLocks) {
  EXPECT_NE(cq_->polling().lock, nullptr);
  const auto cq = Cq::Create(*device_, {.entries = 4, .single_threaded = true});
  ASSERT_TRUE(cq.ok());
  EXPECT_EQ((*cq)->polling().lock, nullptr);
  for (const bool single : {false, true}) {
    QpRequest request;
    request.send_cq = request.recv_cq = cq_.get();
    request.pd = pd_.get();
    request.single_threaded = single;
    const auto qp = Qp::Create(*device_, request);
    ASSERT_TRUE(qp.ok());
    EXPECT_EQ((*qp)->posting().sq_lock == nullptr, single);
    EXPECT_EQ((*qp)->posting().rq_lock == nullptr, single);
    const auto srq =
        Srq::Create(*pd_, {.max_wr = 4, .single_threaded = single});
    ASSERT_TRUE(srq.ok());
    EXPECT_EQ((*srq)->posting().lock == nullptr, single);
  }
}

TEST_F(ControlTest, AProcessSharesADeviceAndCanOpenItAgain) {
  auto again = Device::Open(identities_->front(), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->get(), device_.get());
  again->reset();
  cq_.reset();
  pd_.reset();
  device_.reset();
  SetUp();
}

TEST_F(ControlTest, ThePortReportsItsMtu) {
  EXPECT_EQ(device_->mtu_max(), 1024u);
  EXPECT_EQ(device_->QueryPort().active_mtu, 3);
  EXPECT_TRUE(device_->QueryPort().active);
}

//= IBTA 10.6.3.1
TEST_F(ControlTest, RegistrationChecksRightsAndMemory) {
  using enum absl::StatusCode;
  static char memory[8192];
  static const char constant[8192] = "not writable";
  EXPECT_EQ(RegisterCode(memory, sizeof(memory), 0), kOk);
  EXPECT_EQ(RegisterCode(memory, 0, 0), kInvalidArgument);
  EXPECT_EQ(RegisterCode(memory, kMaxMrBytes + 1, 0), kInvalidArgument);
  EXPECT_EQ(RegisterCode(reinterpret_cast<void*>(~uint64_t{99}), 200, 0),
            kInvalidArgument);
  EXPECT_EQ(RegisterCode(memory, 8, mem::kRemoteWrite), kInvalidArgument);
  EXPECT_EQ(RegisterCode(memory, 8, mem::kRemoteAtomic), kInvalidArgument);
  EXPECT_EQ(RegisterCode(memory, 8, mem::kRemoteRead), kOk);
  EXPECT_EQ(RegisterCode(memory, 8, 1u << 10), kInvalidArgument);
  EXPECT_EQ(RegisterCode(memory, 8, kAccessFlushPersistent), kUnimplemented);
  EXPECT_EQ(RegisterCode(memory, 8, kAccessOnDemand | kAccessFlushGlobal), kOk);
  EXPECT_EQ(RegisterCode(memory, 8, kAccessOptionalFirst | kAccessHugetlb),
            kOk);
  EXPECT_EQ(RegisterCode(nullptr, 8, 0), kOutOfRange);
  EXPECT_EQ(RegisterCode(constant, 8, mem::kRemoteRead), kOk);
  EXPECT_EQ(RegisterCode(constant, 8, mem::kLocalWrite), kOutOfRange);
  EXPECT_EQ(device_->mrs().size(), 0u);
}

TEST_F(ControlTest, EachRegionHasItsOwnKey) {
  static char memory[64];
  const uint64_t at = reinterpret_cast<uint64_t>(memory);
  auto a = *Mr::Register(*pd_, {at, 64, at, mem::kLocalWrite});
  auto b = *Mr::Register(*pd_, {at, 64, at, mem::kLocalWrite});
  EXPECT_NE(a->key(), b->key());
  EXPECT_TRUE(pd_->in_use());
  const mem::MrTable& mrs = device_->network().mrs();
  EXPECT_NE(mrs.Find(MrKey{a->key()}), nullptr);
  const uint32_t key = a->key();
  a.reset();
  EXPECT_EQ(mrs.Find(MrKey{key}), nullptr);
  b.reset();
  EXPECT_FALSE(pd_->in_use());
}

TEST_F(ControlTest, ZeroBasedRegionsStartAt0) {
  static char memory[64];
  const uint64_t at = reinterpret_cast<uint64_t>(memory);
  auto mr = *Mr::Register(*pd_, {at, 64, at, kAccessZeroBased});
  EXPECT_EQ(device_->network().mrs().Find(MrKey{mr->key()})->iova, 0u);
}

TEST_F(ControlTest, CompletionQueueSizesHaveLimits) {
  EXPECT_EQ(cq_->entries(), 16u);
  EXPECT_EQ((*Cq::Create(*device_, {.entries = kMaxCqe}))->entries(), kMaxCqe);
  const auto error = [&](const CqRequest& request) {
    const absl::Status status = Cq::Create(*device_, request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({.entries = 0}),
              HasSubstr("create_cq: cqe 0 is out of range: 1 to "));
  EXPECT_THAT(error({.entries = kMaxCqe + 1}), HasSubstr("is out of range"));
  EXPECT_THAT(error({.entries = 1, .comp_vector = 1}),
              HasSubstr("comp_vector 1 is out of range: 0 to 0"));
  EXPECT_THAT(std::string(cq_->Resize(0).message()),
              HasSubstr("resize_cq: cqe 0 is out of range: 1 to "));
}

TEST_F(ControlTest, ModerationDoesNotAllocate) {
  const testing::AllocGuard allocations;
  for (uint16_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(cq_->Moderate(i, 100).ok());
  }
  EXPECT_EQ(allocations.count(), 0u);
}

TEST_F(ControlTest, QueuePairSizesHaveLimits) {
  EXPECT_THAT(CreateError({.max_send_wr = 70000}),
              HasSubstr("max_send_wr 70000 is out of range: 0 to 16384"));
  EXPECT_THAT(CreateError({.max_recv_wr = 16385}), HasSubstr("max_recv_wr"));
  EXPECT_THAT(CreateError({.max_send_sge = 33}), HasSubstr("max_send_sge"));
  EXPECT_THAT(CreateError({.max_recv_sge = 33}), HasSubstr("max_recv_sge"));
  EXPECT_THAT(CreateError({.max_inline_data = 513}),
              HasSubstr("max_inline_data 513 is out of range: 0 to 512"));
  QpRequest request;
  request.pd = pd_.get();
  request.send_cq = cq_.get();
  EXPECT_EQ(Qp::Create(*device_, request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ControlTest, GrantsAtLeastWhatWasAskedFor) {
  const QpCaps asked = {.max_send_wr = 16384,
                        .max_recv_wr = 1000,
                        .max_send_sge = 32,
                        .max_recv_sge = 32,
                        .max_inline_data = 512};
  qp_ = *MakeQp(asked);
  EXPECT_EQ(qp_->caps().max_send_wr, 16384u);
  EXPECT_EQ(qp_->caps().max_recv_wr, 1024u);
  EXPECT_EQ(qp_->caps().max_send_sge, 32u);
  EXPECT_EQ(qp_->caps().max_inline_data, 512u);
  EXPECT_EQ(device_->qps().size(), 1u);
  EXPECT_TRUE(cq_->in_use());
  EXPECT_EQ(qp_->owner().pid, getpid());
}

TEST_F(ControlTest, GoesThroughItsStates) {
  BringUp(QpState::kRts);
  EXPECT_EQ(qp_->Query().qp_state, QpState::kRts);
  EXPECT_EQ(qp_->Query().timeout, 14);
  EXPECT_TRUE(qp_->posting().may_send);
  QpAttributes a;
  a.qp_state = QpState::kSqd;
  EXPECT_TRUE(qp_->Modify(a, kQpState).ok());
  EXPECT_EQ(qp_->Query().sq_draining, 0) << "nothing to drain";
  a.qp_state = QpState::kRts;
  EXPECT_TRUE(qp_->Modify(a, kQpState).ok());
  a.qp_state = QpState::kErr;
  EXPECT_TRUE(qp_->Modify(a, kQpState).ok());
  a.qp_state = QpState::kReset;
  EXPECT_TRUE(qp_->Modify(a, kQpState).ok());
  EXPECT_EQ(qp_->Query().timeout, 0) << "RESET forgets";
  EXPECT_FALSE(qp_->posting().may_recv);
  BringUp(QpState::kRts);
}

TEST_F(ControlTest, RefusesWrongTransitionsAndKeepsItsState) {
  BringUp(QpState::kInit);
  QpAttributes a = GoodAttributes(QpState::kRts);
  EXPECT_THAT(ModifyError(a, kRtsMask),
              HasSubstr(": INIT to RTS: no such transition"));
  EXPECT_THAT(ModifyError(a, kRtsMask),
              HasSubstr("qp " + std::to_string(qp_->qpn())));
  a.cur_qp_state = QpState::kRtr;
  EXPECT_THAT(ModifyError(a, kRtsMask | kQpCurState),
              HasSubstr("cur_qp_state is RTR, the state is INIT"));
  EXPECT_EQ(qp_->Query().qp_state, QpState::kInit);
}

TEST_F(ControlTest, RefusesValuesOutOfRange) {
  BringUp(QpState::kInit);
  const auto rtr = [&](auto change) {
    QpAttributes a = GoodAttributes(QpState::kRtr);
    change(a);
    return ModifyError(a, kRtrMask);
  };
  EXPECT_THAT(rtr([](auto& a) { a.path_mtu = 4; }),
              HasSubstr("path_mtu 2048 is out of range: 256 to 1024"));
  EXPECT_THAT(rtr([](auto& a) { a.path_mtu = 0; }), HasSubstr("path_mtu"));
  EXPECT_THAT(rtr([](auto& a) { a.path_mtu = 6; }), HasSubstr("path_mtu"));
  EXPECT_THAT(rtr([](auto& a) { a.dest_qp_num = 1 << 24; }),
              HasSubstr("dest_qp_num 16777216"));
  EXPECT_THAT(rtr([](auto& a) { a.max_dest_rd_atomic = 129; }),
              HasSubstr("max_dest_rd_atomic 129 is out of range: 0 to"));
  EXPECT_THAT(rtr([](auto& a) { a.min_rnr_timer = 32; }),
              HasSubstr("min_rnr_timer 32"));
  EXPECT_THAT(rtr([](auto& a) { a.ah_attr.sgid_index = 4; }),
              HasSubstr("sgid_index 4"));
  EXPECT_THAT(rtr([](auto& a) { a.ah_attr.is_global = 0; }),
              HasSubstr("is_global"));
  BringUp(QpState::kReset);
  QpAttributes reset;
  EXPECT_TRUE(qp_->Modify(reset, kQpState).ok());
  BringUp(QpState::kRtr);
  const auto rts = [&](auto change) {
    QpAttributes a = GoodAttributes(QpState::kRts);
    change(a);
    return ModifyError(a, kRtsMask);
  };
  EXPECT_THAT(rts([](auto& a) { a.timeout = 32; }), HasSubstr("timeout 32"));
  EXPECT_THAT(rts([](auto& a) { a.retry_cnt = 8; }), HasSubstr("retry_cnt 8"));
  EXPECT_THAT(rts([](auto& a) { a.rnr_retry = 8; }), HasSubstr("rnr_retry 8"));
  EXPECT_THAT(rts([](auto& a) { a.max_rd_atomic = 129; }),
              HasSubstr("max_rd_atomic 129 is out of range: 0 to 128"));
}

TEST_F(ControlTest, RefusesPortsAndKeysThatDoNotExist) {
  qp_ = *MakeQp({.max_send_wr = 4, .max_recv_wr = 4});
  QpAttributes a = GoodAttributes(QpState::kInit);
  a.port_num = 2;
  EXPECT_THAT(ModifyError(a, kInitMask), HasSubstr("port_num 2"));
  a.port_num = 1;
  a.pkey_index = 1;
  EXPECT_THAT(ModifyError(a, kInitMask), HasSubstr("pkey_index 1"));
  a.pkey_index = 0;
  a.qp_access_flags = mem::kRemoteRead | 1u << 15;
  EXPECT_THAT(ModifyError(a, kInitMask), HasSubstr("unknown flags 0x8000"));
  a.qp_access_flags = mem::kLocalWrite | mem::kRemoteRead | kAccessMwBind |
                      kAccessOptionalFirst;
  EXPECT_TRUE(qp_->Modify(a, kInitMask).ok()) << "those of memory regions";
}

TEST_F(ControlTest, SaysWhenTheDestinationIsNotOnTheLink) {
  BringUp(QpState::kInit);
  QpAttributes a = GoodAttributes(QpState::kRtr);
  a.ah_attr.dgid = wire::Gid::FromIpv4(0x0b000001u);
  EXPECT_EQ(qp_->Modify(a, kRtrMask).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(qp_->Query().qp_state, QpState::kInit);
}

TEST_F(ControlTest, AlternatePathsAreNotSupported) {
  BringUp(QpState::kRts);
  QpAttributes a;
  EXPECT_EQ(qp_->Modify(a, kQpAltPath).code(),
            absl::StatusCode::kUnimplemented);
  a.path_mig_state = 2;
  EXPECT_THAT(ModifyError(a, kQpPathMigState), HasSubstr("path_mig_state"));
}

TEST_F(ControlTest, ManyQueuePairsFit) {
  std::vector<std::shared_ptr<Qp>> qps;
  for (int i = 0; i < 1000; ++i) {
    qps.push_back(*MakeQp({.max_send_wr = 1, .max_recv_wr = 1}));
  }
  EXPECT_EQ(device_->qps().size(), 1000u);
}

// A port can carry every MTU that the command line accepts.
TEST(PortMtuTest, TheSmallestAndTheLargestMtuOpen) {
  const struct {
    uint32_t bytes;
    uint32_t ib_mtu;
  } kLimits[] = {{URNIC_PORT_MTU_MIN, 256}, {URNIC_PORT_MTU_MAX, 4096}};
  std::vector<urnic_device_identity> identities(URNIC_MAX_DEVICES);
  for (const auto& limit : kLimits) {
    char error[256];
    const std::string ports =
        "loop|10.9.0.1/24|mtu=" + std::to_string(limit.bytes);
    ASSERT_EQ(urnic_device_identity_parse(ports.c_str(), 1, identities.data(),
                                          error, sizeof(error)),
              1)
        << error;
    auto device = Device::Open(identities.front(), {});
    ASSERT_TRUE(device.ok()) << device.status().message();
    EXPECT_EQ((*device)->mtu_max(), limit.ib_mtu);
    EXPECT_EQ((*device)->port().mtu(), limit.bytes);
  }
}

}  // namespace
}  // namespace urnic::control
